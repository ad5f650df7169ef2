#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <sluice/engine/error.h>

// Layers of torchvision's models in the order in which they run, as its state dicts call them.
namespace sluice::test {

using Names = std::vector<std::string>;

inline void append(Names& all, const std::string& prefix, const Names& parts) {
  for (const std::string& part : parts)
    all.push_back(prefix + part);
}

inline Names resnet(const std::vector<int>& blocks, int convolutions) {
  Names all{"conv1", "bn1"};
  for (std::size_t stage = 0; stage < blocks.size(); ++stage) {
    for (int i = 0; i < blocks[stage]; ++i) {
      const std::string block = message("layer", stage + 1, ".", i, ".");
      for (int c = 1; c <= convolutions; ++c)
        append(all, block, {message("conv", c), message("bn", c)});
      if (i == 0)
        append(all, block, {"downsample.0", "downsample.1"});
    }
  }
  return all;
}

inline Names densenet() {
  Names all{"features.conv0", "features.norm0"};
  const std::vector<int> blocks{6, 12, 24, 16};
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    for (int i = 1; i <= blocks[b]; ++i)
      append(all, message("features.denseblock", b + 1, ".denselayer", i, "."), {"norm1", "conv1", "norm2", "conv2"});
    if (b < 3)
      append(all, message("features.transition", b + 1, "."), {"norm", "conv"});
  }
  append(all, "", {"features.norm5", "classifier"});
  return all;
}

inline Names squeezenet() {
  Names all{"features.0"};
  for (const int fire : {3, 4, 6, 7, 9, 10, 11, 12})
    append(all, message("features.", fire, "."), {"squeeze", "expand1x1", "expand3x3"});
  all.push_back("classifier.1");
  return all;
}

inline Names inception() {
  const Names a{"1x1", "5x5_1", "5x5_2", "3x3dbl_1", "3x3dbl_2", "3x3dbl_3", "_pool"};
  const Names c{"1x1", "7x7_1", "7x7_2", "7x7_3", "7x7dbl_1", "7x7dbl_2", "7x7dbl_3", "7x7dbl_4", "7x7dbl_5", "_pool"};
  const Names e{"1x1", "3x3_1", "3x3_2a", "3x3_2b", "3x3dbl_1", "3x3dbl_2", "3x3dbl_3a", "3x3dbl_3b", "_pool"};
  Names units{"Conv2d_1a_3x3", "Conv2d_2a_3x3", "Conv2d_2b_3x3", "Conv2d_3b_1x1", "Conv2d_4a_3x3"}, all;
  for (const char* const stage : {"5b", "5c", "5d"})
    append(units, message("Mixed_", stage, ".branch"), a);
  append(units, "Mixed_6a.branch", {"3x3", "3x3dbl_1", "3x3dbl_2", "3x3dbl_3"});
  for (const char* const stage : {"6b", "6c", "6d", "6e"})
    append(units, message("Mixed_", stage, ".branch"), c);
  append(units, "Mixed_7a.branch", {"3x3_1", "3x3_2", "7x7x3_1", "7x7x3_2", "7x7x3_3", "7x7x3_4"});
  for (const char* const stage : {"7b", "7c"})
    append(units, message("Mixed_", stage, ".branch"), e);
  for (const std::string& unit : units)
    append(all, unit, {".conv", ".bn"});
  all.push_back("fc");
  return all;
}

inline Names numbered(const std::string& prefix, int count) {
  Names all;
  for (int i = 0; i < count; ++i)
    append(all, message(prefix, i, ".block."), {"0.0", "0.1", "1.0", "1.1", "2.fc1", "2.fc2", "3.0", "3.1"});
  return all;
}

inline Names segmentation() {
  Names all;
  for (const std::string& name : resnet({3, 4, 6, 3}, 3))
    all.push_back("backbone." + name);
  for (int i = 0; i < 4; ++i)
    append(all, message("classifier.0.convs.", i), {".0", ".1"});
  append(all, "classifier.0.", {"convs.4.1", "convs.4.2", "project.0", "project.1"});
  append(all, "classifier.", {"1", "2", "4"});
  append(all, "aux_classifier.", {"0", "1", "4"});
  return all;
}

inline Names transformer(int layers) {
  Names all{"conv_proj", "encoder.pos_embedding"};
  for (int i = 0; i < layers; ++i)
    append(
        all,
        message("encoder.layers.encoder_layer_", i, "."),
        {"self_attention.query",
         "self_attention.key",
         "self_attention.value",
         "self_attention.out_proj",
         "ln_1",
         "mlp.0",
         "mlp.3",
         "ln_2"});
  append(all, "", {"encoder.ln", "heads.head"});
  return all;
}

}  // namespace sluice::test
