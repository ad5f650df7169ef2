#pragma once

// A network that MXNet 1.9.1 exported (Module.save_checkpoint): convolution, batch norm, pooling, concatenation,
// slices, arithmetic, a product and a softmax, with random parameters.
#include <string>

namespace sluice::test {

inline const std::string k_mxnet_symbol =
    R"x({"nodes":[{"op":"null","name":"data","inputs":[]},{"op":"null","name":"conv_weight","attrs":{"kernel":"()x"
    R"x(3, 3)","num_filter":"3","pad":"(1, 1)"},"inputs":[]},{"op":"null","name":"conv_bias","attrs":{"kernel":")x"
    R"x((3, 3)","num_filter":"3","pad":"(1, 1)"},"inputs":[]},{"op":"Convolution","name":"conv","attrs":{"kernel)x"
    R"x(":"(3, 3)","num_filter":"3","pad":"(1, 1)"},"inputs":[[0,0,0],[1,0,0],[2,0,0]]},{"op":"null","name":"nor)x"
    R"x(m_gamma","attrs":{"eps":"0.001","fix_gamma":"False"},"inputs":[]},{"op":"null","name":"norm_beta","attrs)x"
    R"x(":{"eps":"0.001","fix_gamma":"False"},"inputs":[]},{"op":"null","name":"norm_moving_mean","attrs":{"__in)x"
    R"x(it__":"[\"zero\", {}]","eps":"0.001","fix_gamma":"False"},"inputs":[]},{"op":"null","name":"norm_moving_)x"
    R"x(var","attrs":{"__init__":"[\"one\", {}]","eps":"0.001","fix_gamma":"False"},"inputs":[]},{"op":"BatchNor)x"
    R"x(m","name":"norm","attrs":{"eps":"0.001","fix_gamma":"False"},"inputs":[[3,0,0],[4,0,0],[5,0,0],[6,0,1],[)x"
    R"x(7,0,1]]},{"op":"Activation","name":"act","attrs":{"act_type":"tanh"},"inputs":[[8,0,0]]},{"op":"Pooling")x"
    R"x(,"name":"pool","attrs":{"kernel":"(2, 2)","pool_type":"avg","pooling_convention":"full","stride":"(2, 2))x"
    R"x("},"inputs":[[9,0,0]]},{"op":"_mul_scalar","name":"_mulscalar0","attrs":{"scalar":"2"},"inputs":[[10,0,0)x"
    R"x(]]},{"op":"_minus_scalar","name":"_minusscalar0","attrs":{"scalar":"0.25"},"inputs":[[11,0,0]]},{"op":"L)x"
    R"x(eakyReLU","name":"elu","attrs":{"act_type":"elu","slope":"0.3"},"inputs":[[10,0,0]]},{"op":"clip","name")x"
    R"x(:"clip","attrs":{"a_max":"0.5","a_min":"-0.5"},"inputs":[[13,0,0]]},{"op":"Concat","name":"both","attrs")x"
    R"x(:{"dim":"1","num_args":"2"},"inputs":[[12,0,0],[14,0,0]]},{"op":"SliceChannel","name":"parts","attrs":{")x"
    R"x(axis":"1","num_outputs":"2"},"inputs":[[15,0,0]]},{"op":"mean","name":"mean","attrs":{"axis":"(2, 3)","k)x"
    R"x(eepdims":"True"},"inputs":[[16,1,0]]},{"op":"broadcast_add","name":"sum","inputs":[[16,0,0],[17,0,0]]},{)x"
    R"x("op":"Reshape","name":"flat","attrs":{"shape":"(0, -1)"},"inputs":[[18,0,0]]},{"op":"null","name":"fc_we)x"
    R"x(ight","attrs":{"num_hidden":"4"},"inputs":[]},{"op":"null","name":"fc_bias","attrs":{"num_hidden":"4"},")x"
    R"x(inputs":[]},{"op":"FullyConnected","name":"fc","attrs":{"num_hidden":"4"},"inputs":[[19,0,0],[20,0,0],[2)x"
    R"x(1,0,0]]},{"op":"null","name":"softmax_label","inputs":[]},{"op":"SoftmaxOutput","name":"softmax","inputs)x"
    R"x(":[[22,0,0],[23,0,0]]}],"arg_nodes":[0,1,2,4,5,6,7,20,21,23],"node_row_ptr":[0,1,2,3,4,5,6,7,8,11,12,13,)x"
    R"x(14,15,16,17,18,20,21,22,23,24,25,26,27,28],"heads":[[24,0,0]],"attrs":{"mxnet_version":["int",10901]}})x";

inline const std::string k_mxnet_parameters =
    "120100000000000000000000000000000800000000000000c9fa93f900000000040000000300000000000000020000000000000003000000"
    "000000000300000000000000010000000000000000000000cdcccc3d3d0ad73e3d0ad7be0ad7a33c713d4a3f713d4a3f000040bf3d0a17bf"
    "666666bf8fc2f5bdd7a370bfec51b8bd9a99993eae47e1be3333b33eec51383e333373bf8fc2f53d8fc2f5be7b142ebef628dcbe14aec73e"
    "8fc2f5bdd7a330bfec51b83d295c0f3f14aec7be295c0fbfae4761be52b85e3f3333733f7b14ae3e295c4f3fd7a3303f8fc275be85eb51bf"
    "52b89e3e8fc2f53d295c8fbecdcc0cbf5c8f42be8fc275bd1f85ebbe3d0ad7be0ad7a3bdec51383f7b142e3ef628dcbeae47e1beec51b8bd"
    "3d0a17bf9a9919bf8fc2f53ce17a54bfc9fa93f9000000000100000003000000000000000100000000000000000000008fc2f5bc295c8fbe"
    "3d0ad73ec9fa93f90000000001000000030000000000000001000000000000000000000048e1fa3e5c8fc23e5c8fc23ec9fa93f900000000"
    "010000000300000000000000010000000000000000000000000080be7b14ae3e0ad7a3bec9fa93f900000000020000000400000000000000"
    "1b000000000000000100000000000000000000009a99193e3333b3beae47e1bdae4761bf5c8f02bfd7a3703f713d0abf5c8fc23e9a99993e"
    "6666e63ecdcc4cbd5c8f423e52b85ebf9a9959bf9a9919bf333333bfcdcc4cbfa4703dbfae47e13d52b81ebf6666663fec51b83e0ad7a33d"
    "85ebd13ed7a3f0be9a99593f7b142e3f6666e63e0ad723bd7b142e3f48e1fa3e0ad7a33ee17a543f713d8a3e713d8abeae47e13df6281cbf"
    "52b81ebf6666e63e85eb113fd7a3703f3333333fec51b83d85eb51bf0ad7a3bcf6285c3fe17a143f8fc2f5bcec51b8bd295c0fbf666626bf"
    "9a9959bf14ae473f295c8f3e8fc235bf7b142ebe666666bfe17a14bf1f85eb3e9a99993e0ad723bd6666e6be9a99993ec3f5683fb81e05be"
    "f6285cbfae4761bfe17a54bf1f856b3f0ad7a33d1f852b3fc3f528bf8fc2f5be5c8fc23e713d4a3f0ad7a3be52b85ebf48e13a3f3d0ad7be"
    "8fc2f53e7b142ebf14aec73e7b142e3f6666e63e295c8fbe6666e63eec5138bfa470bdbe0ad723be0000403fd7a330bf5c8f423f9a99193f"
    "d7a3703fb81e85be3d0a17bfb81e05bfc3f5283f7b146e3fcdcccc3e0ad723bdf628dcbe1f852b3fa4703d3f85eb51bf85eb11bfc3f5283f"
    "3333333fc9fa93f900000000010000000400000000000000010000000000000000000000a470bdbeae47e1be295c0fbe0ad7a33dc9fa93f9"
    "00000000010000000300000000000000010000000000000000000000295c8f3e52b85e3fae47213fc9fa93f9000000000100000003000000"
    "0000000001000000000000000000000085eb513f5c8fc23eec51783f08000000000000000f000000000000006172673a636f6e765f776569"
    "6768740d000000000000006172673a636f6e765f626961730e000000000000006172673a6e6f726d5f67616d6d610d000000000000006172"
    "673a6e6f726d5f626574610d000000000000006172673a66635f7765696768740b000000000000006172673a66635f626961731400000000"
    "0000006175783a6e6f726d5f6d6f76696e675f6d65616e13000000000000006175783a6e6f726d5f6d6f76696e675f766172";

}  // namespace sluice::test
