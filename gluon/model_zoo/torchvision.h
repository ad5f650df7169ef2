#pragma once

#include <filesystem>

#include <sluice/engine/export.h>
#include <sluice/gluon/block.h>

namespace sluice::gluon::model_zoo {

/// Reads the weights of a model of torchvision's into the one here that is its like. The file is its state dict, in
/// Python: `safetensors.torch.save_file(model.state_dict(), "resnet50.safetensors")`, or an .npz of the same names.
/// Parameters take their values by their layers' order in the network, which torchvision's names tell:
///
///     alexnet()                                 alexnet
///     vgg(11, batch_norm), 13, 16, 19           vgg11, vgg11_bn, ..
///     resnet_v1b(18), 34, 50, 101, 152          resnet18, ..
///     resnext(50, 32, 4), wide_resnet(50, 2)    resnext50_32x4d, wide_resnet50_2, ..
///     densenet(121), 161, 169, 201              densenet121, ..
///     squeezenet("1.0"), "1.1"                  squeezenet1_0, squeezenet1_1
///     inception_v3()                            inception_v3, of which AuxLogits are left out
///     mobilenet_v2b(), mobilenet_v3_large(),
///     mobilenet_v3_small(), efficientnet(0)     mobilenet_v2, mobilenet_v3_large, .., efficientnet_b0
///     vit_b_16()                                vit_b_16
///     segmentation::fcn_resnet(50, {.aux = true}),
///     deeplabv3_resnet(50), ..                  fcn_resnet50, deeplabv3_resnet50, ..; without .aux, aux_classifier is
///                                               left out
///
/// Images are to be prepared as torchvision says of its weights. Either all parameters are set or none; another number
/// of classes is an error: replace("output", ..) afterwards. options.in_order does nothing, with allow_missing layers
/// must be as many all the same. The host waits for the values. Throws FileError; ValueError for a file of another
/// network, that names what has no place, and for names that are missing; ShapeError, DTypeError, each naming the file.
SLUICE_API void load_torchvision(
    Block& net,
    const std::filesystem::path& path,
    const LoadOptions& options = {},
    SourceLocation site = SourceLocation::current());

}  // namespace sluice::gluon::model_zoo
