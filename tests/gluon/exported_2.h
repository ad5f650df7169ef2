#pragma once

// What version 2 of the file's format, which has loops and branches, wrote of a network, and what that network gave:
// never changed, only added to.
namespace sluice::test::exported_2 {

// clang-format off
inline constexpr const char* k_graph = R"json({
 "format": "sluice graph",
 "version": 2,
 "checksum": "095ecea5",
 "parameter_checksum": "735b3fc5",
 "notes": {"classes": "left right"},
 "inputs": [
  {"name": "steps", "value": 0, "shape": [40, 2, 3], "dtype": "float32", "batch": true}
 ],
 "parameters": [
  {"name": "scale", "value": 1, "shape": [3], "dtype": "float32", "grad_req": "write", "lr_mult": "1", "wd_mult": "1"},
  {"name": "head.weight", "value": 2, "shape": [2, 3], "dtype": "float32", "grad_req": "write", "lr_mult": "1", "wd_mult": "1"},
  {"name": "head.bias", "value": 3, "shape": [2], "dtype": "float32", "grad_req": "write", "lr_mult": "1", "wd_mult": "1"}
 ],
 "nodes": [
  {"op": "full", "inputs": [], "attributes": {"shape": [2, 3], "dtype": {"dtype": "float32"}, "device": {"device": "here"}, "value": 0}, "results": [{"value": 4, "shape": [2, 3], "dtype": "float32"}], "call": {"layer": "Loops", "file": "g.cpp", "line": 18}},
  {"op": "foreach", "inputs": [0, 4, 1], "attributes": {"body": {"graph": {"inputs": [{"value": 0, "shape": [2, 3], "dtype": "float32"}, {"value": 1, "shape": [2, 3], "dtype": "float32"}, {"value": 2, "shape": [3], "dtype": "float32"}], "nodes": [{"op": "multiply", "inputs": [1, 2], "attributes": null, "results": [{"value": 3, "shape": [2, 3], "dtype": "float32"}], "call": {"layer": "Loops", "file": "g.cpp", "line": 15}}, {"op": "add", "inputs": [0, 3], "attributes": null, "results": [{"value": 4, "shape": [2, 3], "dtype": "float32"}], "call": {"layer": "Loops", "file": "g.cpp", "line": 15}}, {"op": "tanh", "inputs": [4], "attributes": null, "results": [{"value": 5, "shape": [2, 3], "dtype": "float32"}], "call": {"layer": "Loops", "file": "g.cpp", "line": 15}}], "outputs": [5]}}, "data": 1, "states": 1, "sums": 0, "reverse": false, "counted": false, "saves": false}, "results": [{"value": 5, "shape": [2, 3], "dtype": "float32"}], "call": {"layer": "Loops", "file": "g.cpp", "line": 19}},
  {"op": "sum", "inputs": [5], "attributes": {"axes": [0, 1], "keepdims": false}, "results": [{"value": 6, "shape": [], "dtype": "float32"}], "call": {"layer": "Loops", "file": "g.cpp", "line": 22}},
  {"op": "greater", "inputs": [6], "attributes": {"number": {"real": "0"}, "first": false}, "results": [{"value": 7, "shape": [], "dtype": "bool"}], "call": {"layer": "Loops", "file": "g.cpp", "line": 22}},
  {"op": "cond", "inputs": [7, 5], "attributes": {"then_body": {"graph": {"inputs": [{"value": 0, "shape": [2, 3], "dtype": "float32"}], "nodes": [{"op": "multiply", "inputs": [0], "attributes": {"number": {"real": "2"}, "first": false}, "results": [{"value": 1, "shape": [2, 3], "dtype": "float32"}], "call": {"layer": "Loops", "file": "g.cpp", "line": 20}}], "outputs": [1]}}, "else_body": {"graph": {"inputs": [{"value": 0, "shape": [2, 3], "dtype": "float32"}], "nodes": [{"op": "multiply", "inputs": [0], "attributes": {"number": {"real": "0.5"}, "first": false}, "results": [{"value": 1, "shape": [2, 3], "dtype": "float32"}], "call": {"layer": "Loops", "file": "g.cpp", "line": 21}}], "outputs": [1]}}, "inputs": 1}, "results": [{"value": 8, "shape": [2, 3], "dtype": "float32"}], "call": {"layer": "Loops", "file": "g.cpp", "line": 22}},
  {"op": "dense", "inputs": [8, 2, 3], "attributes": {"flatten": true, "relu": false}, "results": [{"value": 9, "shape": [2, 2], "dtype": "float32"}], "call": {"layer": "layer head (Dense)", "file": "g.cpp", "line": 22}}
 ],
 "outputs": [
  {"name": "scores", "value": 9}
 ]
}
)json";
// clang-format on

/// The bytes of the parameter file, two digits each.
inline constexpr const char* k_parameters =
    "504b03041400000000000000210085b0b6ac88000000880000000d000000686561642e626961732e6e7079934e554d5059010076007b27"
    "6465736372273a20273c6634272c2027666f727472616e5f6f72646572273a2046616c73652c20277368617065273a2028322c292c207d"
    "20202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020"
    "20202020200a0000000000000000504b030414000000000000002100f7e9853e98000000980000000f000000686561642e776569676874"
    "2e6e7079934e554d5059010076007b276465736372273a20273c6634272c2027666f727472616e5f6f72646572273a2046616c73652c20"
    "277368617065273a2028322c2033292c207d20202020202020202020202020202020202020202020202020202020202020202020202020"
    "2020202020202020202020202020202020202020200a049a313f08e956bf200caf3e64c2143fe8fe01bff039e73d504b03041400000000"
    "000000210071eeb1d58c0000008c000000090000007363616c652e6e7079934e554d5059010076007b276465736372273a20273c663427"
    "2c2027666f727472616e5f6f72646572273a2046616c73652c20277368617065273a2028332c292c207d20202020202020202020202020"
    "20202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020200a0000003f000080"
    "be0000803f504b01022d031400000000000000210085b0b6ac88000000880000000d0000000000000000000000a4810000000068656164"
    "2e626961732e6e7079504b01022d0314000000000000002100f7e9853e98000000980000000f0000000000000000000000a481b3000000"
    "686561642e7765696768742e6e7079504b01022d031400000000000000210071eeb1d58c0000008c000000090000000000000000000000"
    "a481780100007363616c652e6e7079504b05060000000003000300af0000002b0200000000";

}  // namespace sluice::test::exported_2
