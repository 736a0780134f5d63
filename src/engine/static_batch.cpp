#include "engine/static_batch.h"

#include <algorithm>
#include <bit>

namespace strata {
namespace {

unsigned bucket(const ActiveRequest& request) {
  return static_cast<unsigned>(std::bit_width(static_cast<uint64_t>(request.prompt_size())));
}

}  // namespace

bool StaticBatch::holds(const ActiveRequest& request) const {
  return !is_static() || std::find(members_.begin(), members_.end(), request.id) != members_.end();
}

void StaticBatch::update(std::span<const std::unique_ptr<ActiveRequest>> active,
                         bool anybody_runs) {
  const auto is_gone = [&](uint64_t id) {
    return std::none_of(active.begin(), active.end(),
                        [&](const auto& request) { return request->id == id; });
  };
  members_.erase(std::remove_if(members_.begin(), members_.end(), is_gone), members_.end());
  // Further choices of a member may be waiting for the padding's pages.
  if (!anybody_runs) drop_padding();
}

void StaticBatch::form(std::span<ActiveRequest* const> line) {
  std::vector<ActiveRequest*> chosen;
  int64_t sequences = 0;
  for (ActiveRequest* request : line) {
    const auto choices = static_cast<int64_t>(request->sequences.size());
    if (options_.length_buckets && !chosen.empty() && bucket(*request) != bucket(*chosen.front()))
      continue;
    chosen.push_back(request);
    sequences += choices;
    // The first one fits when it is alone; if not all its choices, they run one after the other.
    if (chosen.size() > 1 && (sequences > options_.max_running || !fits(chosen))) {
      chosen.pop_back();
      break;
    }
  }
  longest_prompt_ = longest_answer_ = 0;
  for (const ActiveRequest* request : chosen) {
    members_.push_back(request->id);
    longest_prompt_ = std::max(longest_prompt_, request->prompt_size());
    longest_answer_ = std::max(longest_answer_, request->max_tokens);
  }
}

bool StaticBatch::fits(std::span<ActiveRequest* const> members) const {
  int64_t prompt = 0, answer = 0;
  for (const ActiveRequest* m : members) {
    prompt = std::max(prompt, m->prompt_size());
    answer = std::max(answer, m->max_tokens);
  }
  for (size_t g = 0; g < pool_.shape().groups.size(); ++g) {
    int64_t pages = 0;
    for (const ActiveRequest* m : members) {
      const int64_t tokens =
          std::min(options_.context, m->prompt_size() + (pads() ? answer : m->max_tokens));
      pages += pool_.most_pages(g, tokens) * static_cast<int64_t>(m->sequences.size());
      if (pads()) pages += pool_.most_pages(g, prompt - m->prompt_size());
    }
    if (pages > pool_.available_pages(g)) return false;
  }
  return true;
}

bool StaticBatch::reads(std::span<const std::unique_ptr<ActiveRequest>> active) const {
  if (!is_static()) return false;
  for (const auto& request : active)
    if (holds(*request) && request->sequences.front()->finish == FinishReason::none &&
        request->sequences.front()->length < request->prompt_size())
      return true;
  return std::any_of(padding_.begin(), padding_.end(), [](const Padding& p) { return p.left > 0; });
}

int64_t StaticBatch::reserved_tokens(const ActiveRequest& request) const {
  const int64_t answer = pads() ? longest_answer_ : request.max_tokens;
  return std::min(options_.context, request.prompt_size() + answer);
}

void StaticBatch::pad_prompt(const ActiveRequest& request) {
  const int64_t missing = longest_prompt_ - request.prompt_size();
  if (!pads() || missing == 0) return;
  const int32_t cache = pool_.create(missing);
  // A member whose choices do not fit together runs alone and has no padding.
  if (!pool_.reserve(cache, missing)) return pool_.release(cache);
  padding_.push_back({cache, 0, missing, request.request.prompt.front(), false});
}

void StaticBatch::end(const ActiveRequest& request, const Sequence& sequence) {
  if (request.finished())
    members_.erase(std::remove(members_.begin(), members_.end(), request.id), members_.end());
  const bool failed = sequence.finish == FinishReason::error;
  if (pads() && !members_.empty() && !failed && !sequence.generated.empty() &&
      request.left(sequence) == 1)
    padding_.push_back({sequence.cache, sequence.length, 0, sequence.generated.back(), true});
  else
    pool_.release(sequence.cache);
  if (members_.empty()) drop_padding();
}

void StaticBatch::plan(int64_t room, bool reads) {
  planned_.clear();
  for (const Padding& p : padding_) {
    const int64_t wanted = p.ended ? (reads || p.length >= options_.context ? 0 : 1) : p.left;
    const int64_t rows = std::min(wanted, room);
    if (rows == 0 || !pool_.grow(p.cache, p.length + rows)) continue;
    room -= rows;
    planned_.push_back({p.cache, p.length, rows, p.token});
  }
}

void StaticBatch::finish_step() {
  for (const PaddingRows& rows : planned_) {
    padding_rows_ += rows.rows;
    const auto p = std::find_if(padding_.begin(), padding_.end(), [&](const Padding& padding) {
      return padding.cache == rows.cache;
    });
    p->length += rows.rows;
    if (!p->ended) p->left -= rows.rows;
  }
  planned_.clear();
}

void StaticBatch::drop_padding() {
  for (const Padding& p : padding_) pool_.release(p.cache);
  padding_.clear();
  planned_.clear();
}

}  // namespace strata
