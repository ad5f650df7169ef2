#pragma once

#include <sluice/gluon/rnn/cell.h>
#include <sluice/gluon/rnn/cells.h>
#include <sluice/gluon/rnn/conv_cells.h>
#include <sluice/gluon/rnn/layer.h>
