// Feeds answers of the HTTP API of Prometheus to their reader, as vectors and as matrices.
//
// Properties: an error is one short sentence; each series has samples, those of a vector one; an
// answer is of one kind only.
#include <string>

#include "extender/prometheus/answer.h"
#include "extender/prometheus/limits.h"
#include "test/fuzz/fuzz.h"

namespace mgpu::fuzz {
namespace {

void expect_answer(const Result<promql::Answer>& read, std::string_view input, bool of_vector) {
  if (!read) {
    expect_sentence(read.error().message);
    return;
  }
  std::size_t samples = 0;
  for (const promql::Series& series : read->series) {
    expect(!series.samples.empty(), "a series has samples");
    expect(!of_vector || series.samples.size() == 1, "a series of a vector has one sample");
    samples += series.samples.size();
  }
  expect(samples <= input.size(), "a sample takes more than a byte");
  expect(read->warnings.size() <= promql::kWarningsMax, "there are few warnings");
}

}  // namespace

MGPU_FUZZER(prometheus_answer) {
  kube::Response response;
  response.status = 200;
  response.body = std::string(input);
  const auto vector = promql::vector_in(response);
  const auto matrix = promql::matrix_in(response);
  expect_answer(vector, input, true);
  expect_answer(matrix, input, false);
  expect(!vector || !matrix, "an answer is of one kind");
  response.status = 422;
  expect(!promql::vector_in(response), "an error is not read as an answer");
}

}  // namespace mgpu::fuzz
