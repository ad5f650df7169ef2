// JPEG files through dataset and DataLoader, beside threads that call libjpeg with nothing around it; and JPEG in
// memory decoded by CPU threads and by nvJPEG.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <jpeglib.h>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

#include <sluice/sluice.h>

#include "tests/bench/support/rounds.h"

namespace {

using namespace sluice;
namespace fs = std::filesystem;
namespace vision = gluon::data::vision;

using Bytes = std::vector<std::uint8_t>;

/// Files of the size that photographs in data sets have, in a folder that goes with them.
class Files {
 public:
  Files(int count, std::int64_t height, std::int64_t width) : height_(height), width_(width) {
    std::string pattern = (fs::temp_directory_path() / "sluice-images-XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
    fs::create_directories(folder_ / "class");
    for (int i = 0; i < count; ++i) {
      paths_.push_back(folder_ / "class" / message(100000 + i, ".jpg"));
      image::imwrite(paths_.back(), picture(i), {.quality = 90});
    }
  }
  Files(const Files&) = delete;
  Files& operator=(const Files&) = delete;
  ~Files() { fs::remove_all(folder_); }

  const fs::path& folder() const { return folder_; }
  const std::vector<fs::path>& paths() const { return paths_; }
  std::size_t image_bytes() const { return static_cast<std::size_t>(height_ * width_ * 3); }
  std::uint64_t bytes() const {
    std::uint64_t sum = 0;
    for (const fs::path& path : paths_)
      sum += fs::file_size(path);
    return sum;
  }

 private:
  // Waves, and as much noise as makes files of some 1.3 bits a pixel.
  NDArray picture(int number) const {
    Bytes pixels(image_bytes());
    std::uint32_t noise = static_cast<std::uint32_t>(number) * 2654435761U + 1;
    for (std::size_t i = 0; i < pixels.size(); ++i) {
      noise = noise * 1664525U + 1013904223U;
      const auto at = static_cast<double>(i / 3 % static_cast<std::size_t>(width_));
      const auto down = static_cast<double>(i / 3 / static_cast<std::size_t>(width_));
      const double wave = std::sin(at / 11 + number) + std::sin(down / 17 - number + static_cast<double>(i % 3));
      pixels[i] = static_cast<std::uint8_t>(128 + 50 * wave + static_cast<double>(noise >> 28));
    }
    return array(pixels, {height_, width_, 3});
  }

  std::int64_t height_, width_;
  fs::path folder_;
  std::vector<fs::path> paths_;
};

/// As short as libjpeg's manual has it. Files are sound: it may end the program.
void decode_bare(const Bytes& file, std::uint8_t* to) {
  jpeg_decompress_struct jpeg;
  jpeg_error_mgr errors;
  jpeg.err = jpeg_std_error(&errors);
  jpeg_create_decompress(&jpeg);
  jpeg_mem_src(&jpeg, const_cast<unsigned char*>(file.data()), file.size());
  jpeg_read_header(&jpeg, TRUE);
  jpeg.out_color_space = JCS_RGB;
  jpeg_start_decompress(&jpeg);
  for (const std::size_t row = std::size_t{jpeg.output_width} * 3; jpeg.output_scanline < jpeg.output_height;
       to += row) {
    JSAMPROW rows[] = {to};
    jpeg_read_scanlines(&jpeg, rows, 1);
  }
  jpeg_finish_decompress(&jpeg);
  jpeg_destroy_decompress(&jpeg);
}

Bytes content(const fs::path& path) {
  Bytes bytes(fs::file_size(path));
  std::ifstream(path, std::ios::binary)
      .read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  return bytes;
}

std::uint64_t sum_of(const std::uint8_t* pixels, std::size_t n) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < n; i += 97)
    sum = sum * 31 + pixels[i];
  return sum;
}

/// What each image's pixels come to, xor-ed.
std::uint64_t run_bare(const Files& files, int threads, bool sums) {
  std::atomic<std::size_t> next{0};
  std::atomic<std::uint64_t> all{0};
  std::vector<std::thread> running;
  for (int i = 0; i < threads; ++i) {
    running.emplace_back([&] {
      Bytes pixels(files.image_bytes());
      for (std::size_t k = next++; k < files.paths().size(); k = next++) {
        decode_bare(content(files.paths()[k]), pixels.data());
        if (sums)
          all ^= sum_of(pixels.data(), pixels.size());
      }
    });
  }
  for (std::thread& thread : running)
    thread.join();
  return all;
}

std::uint64_t run_loader(const Files& files, const vision::ImageFolderDataset& dataset, std::int64_t batch, bool sums) {
  gluon::data::DataLoader loader(dataset, {.batch_size = batch});
  std::uint64_t all = 0;
  for (const auto& [x, y] : loader) {
    x.wait_to_read();
    if (!sums)
      continue;
    const auto pixels = x.to_vector<std::uint8_t>();
    for (std::size_t i = 0; i < pixels.size(); i += files.image_bytes())
      all ^= sum_of(pixels.data() + i, files.image_bytes());
  }
  return all;
}

/// Decodes bytes in memory to arrays on `device`: there, or on the CPU and copied.
void run_decoding(const std::vector<Bytes>& files, Device device, bool there) {
  constexpr std::size_t k_kept = 64;  // arrays that a program would still use
  std::vector<NDArray> images(k_kept);
  for (std::size_t i = 0; i < files.size(); ++i) {
    const NDArray decoded = there ? image::imdecode(files[i], {}, device) : image::imdecode(files[i]);
    images[i % k_kept] = there ? decoded : decoded.to(device);
  }
  Engine::current().wait_all();
}

/// CPU threads and nvJPEG beside each other, of files as large as these.
void compare_devices(bench::Report& report, const Files& files, const std::string& size) {
  const Device device = num_gpus() > 0 ? gpu(0) : cpu();
  std::vector<Bytes> contents;
  for (const fs::path& path : files.paths())
    contents.push_back(content(path));
  std::vector<bench::Contender> ways{{"cpu", [&] { run_decoding(contents, cpu(), true); }, [] {}}};
  if (device.is_gpu())
    ways.push_back({"cpu-copied", [&] { run_decoding(contents, device, false); }, [] {}});
  if (image::decodes_on_gpu(device))
    ways.push_back({"nvjpeg", [&] { run_decoding(contents, device, true); }, [] {}});
  const std::vector<bench::Rounds> rounds = bench::take_turns(report, ways);
  const auto count = static_cast<double>(contents.size());
  for (std::size_t i = 0; i < ways.size(); ++i) {
    const std::vector<double>& wall = rounds[i].wall;
    report.add(size, ways[i].variant, "rate", count / bench::Rounds::median(wall), "images/s", count / wall.front());
  }
}

}  // namespace

int main(int argc, char** argv) {
  bench::Report report("bench_images", "JPEG files through the DataLoader, beside bare libjpeg");
  int threads = static_cast<int>(std::max(1U, std::thread::hardware_concurrency())), count = 512;
  std::int64_t height = 375, width = 500;
  report.flag("--threads", threads, "threads that decode, of either").range(1, 256).with_default();
  report.flag("--images", count, "files").range(1, 100000).with_default();
  report.flag("--height", height, "of the images").range(8, 4096).with_default();
  report.flag("--width", width, "of the images").range(8, 4096).with_default();
  if (!report.parse(argc, argv))
    return report.exit_code();
  const bool smoke = report.options().smoke;
  if (smoke)
    count = 9;
  Engine engine({.workers = threads});
  const EngineScope scope(engine);
  const Files files(count, smoke ? 24 : height, smoke ? 32 : width);
  const vision::ImageFolderDataset dataset(files.folder());
  const std::int64_t batch = smoke ? 4 : 64;
  report.expect(run_bare(files, threads, true) == run_loader(files, dataset, batch, true), "jpeg: other pixels");
  const std::string variants[] = {"bare", "loader"};
  std::clock_t of_cpus[] = {0, 0};  // whoever else works there
  int runs[] = {0, 0};
  const auto contender = [&](std::size_t i, auto run) {
    return bench::Contender{
        variants[i],
        [&of_cpus, &runs, i, run] {
          const std::clock_t before = std::clock();
          run();
          of_cpus[i] += std::clock() - before;
          ++runs[i];
        },
        [] {}};
  };
  const std::vector<bench::Rounds> rounds =
      bench::take_turns(report, {contender(0, [&] { run_bare(files, threads, false); }), contender(1, [&] {
                                   run_loader(files, dataset, batch, false);
                                 })});
  for (std::size_t i = 0; i < 2; ++i) {
    const std::vector<double>& wall = rounds[i].wall;
    report.add("jpeg", variants[i], "rate", count / bench::Rounds::median(wall), "images/s", count / wall.front());
    const double cpu = static_cast<double>(of_cpus[i]) / CLOCKS_PER_SEC / runs[i] / count;
    report.add("jpeg", variants[i], "cpu", cpu * 1e3, "ms");
  }
  report.add("jpeg", "files", "size", static_cast<double>(files.bytes()) / count / 1024, "KiB");
  compare_devices(report, files, message(smoke ? 24 : height, "x", smoke ? 32 : width));
  compare_devices(report, Files(count, smoke ? 16 : 64, smoke ? 16 : 64), smoke ? "16x16" : "64x64");
  return report.finish();
}
