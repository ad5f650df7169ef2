#pragma once

#include <sluice/gluon/data/any_dataset.h>
#include <sluice/gluon/data/batchify.h>
#include <sluice/gluon/data/cifar.h>
#include <sluice/gluon/data/csv.h>
#include <sluice/gluon/data/dataset.h>
#include <sluice/gluon/data/idx.h>
#include <sluice/gluon/data/loader.h>
#include <sluice/gluon/data/recordio.h>
#include <sluice/gluon/data/sample.h>
#include <sluice/gluon/data/sampler.h>
#include <sluice/gluon/data/transform.h>
#include <sluice/gluon/data/vision.h>
#include <sluice/gluon/data/vision/image_files.h>
#include <sluice/gluon/data/vision/random_transforms.h>
#include <sluice/gluon/data/vision/transforms.h>
