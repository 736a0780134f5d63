#include "engine/scheduler.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <optional>
#include <tuple>

#include "base/error.h"

namespace strata {
namespace {

// A chunk of a prompt beside running streams has at least this many rows, however long a step
// takes: the prompt must come to an end too.
constexpr int64_t kLeastChunk = 2;
// And this many as long as nothing is known about the time of steps.
constexpr int64_t kFirstChunk = 32;

}  // namespace

Scheduler::Scheduler(const SchedulerOptions& options, KvPool& pool, PrefixCache* cache,
                     SwapSpace* swap)
    : options_(options),
      pool_(pool),
      cache_(cache),
      swap_(swap),
      batch_({options.batching, options.length_buckets, options.max_running, options.context},
             pool) {
  STRATA_ASSERT(cache == nullptr || !batch_.is_static());
}

double& Scheduler::served(uint32_t key) {
  if (served_.size() <= key) served_.resize(key + 1);
  return served_[key];
}

void Scheduler::forget_served(EngineClock::time_point now) {
  if (forgotten_ != EngineClock::time_point()) {
    const double factor = std::exp2(-seconds_between(forgotten_, now) / kServedHalfLifeSeconds);
    for (double& tokens : served_) tokens *= factor;
  }
  forgotten_ = now;
}

// The lowest goes first.
double Scheduler::rank(const ActiveRequest& request, const Sequence& sequence,
                       EngineClock::time_point now) const {
  const double waited = seconds_between(request.submitted, now);
  const double excess = std::min(served_[request.request.key] - least_served_, kMostExcessTokens);
  if (options_.policy == Policy::sjf) {
    const auto size = static_cast<double>(request.left(sequence) + request.max_tokens) -
                      static_cast<double>(sequence.generated.size());
    return size + excess - kSjfAgeingTokens * waited;
  }
  const double priority = options_.policy == Policy::priority ? request.request.priority : 0;
  return excess / kFairTokens - priority - waited / kAgeingSeconds;
}

bool Scheduler::is_senior(const Entry& a, const Entry& b) const {
  const auto place = [&](const Entry& e) {
    const double priority = options_.policy == Policy::priority ? e.request->request.priority : 0;
    return std::make_tuple(-priority, e.request->id, e.sequence->choice);
  };
  return place(a) < place(b);
}

void Scheduler::collect(std::span<const std::unique_ptr<ActiveRequest>> active,
                        EngineClock::time_point now) {
  planned_.clear();
  preempted_.clear();
  running_.clear();
  reading_.clear();
  work_ = {};
  reads_prompt_ = false;
  streaming_ = 0;
  least_served_ = std::numeric_limits<double>::infinity();
  for (const auto& request : active)
    least_served_ = std::min(least_served_, served(request->request.key));
  for (const auto& request : active) {
    for (const auto& sequence : request->sequences) {
      if (!sequence->running() && !sequence->waiting()) continue;
      const Entry entry{request.get(), sequence.get(), rank(*request, *sequence, now)};
      if (sequence->running()) running_.push_back(entry);
      if (sequence->waiting() || request->left(*sequence) > 1) reading_.push_back(entry);
    }
  }
  std::sort(running_.begin(), running_.end(),
            [&](const Entry& a, const Entry& b) { return is_senior(a, b); });
  std::sort(reading_.begin(), reading_.end(), [&](const Entry& a, const Entry& b) {
    return a.rank != b.rank ? a.rank < b.rank : is_senior(a, b);
  });
}

const std::vector<PlannedRows>& Scheduler::plan(
    std::span<const std::unique_ptr<ActiveRequest>> active, EngineClock::time_point now) {
  forget_served(now);
  collect(active, now);
  form_batch(active);
  const bool batch_reads = batch_.reads(active);
  if (!batch_reads) plan_single_rows();
  plan_chunks(now);
  batch_.plan(options_.batch_tokens - static_cast<int64_t>(work_.rows), batch_reads);
  for (const PaddingRows& rows : batch_.planned()) work_.add(rows.rows, rows.length);
  // Prompts that hold pages can be in each other's way while nothing streams: the most senior goes
  // on. Nothing is planned yet, so any other may be preempted.
  if (planned_.empty() && batch_.planned().empty() && !running_.empty()) {
    const Entry first = running_.front();
    const int64_t rows = std::min(first.request->left(*first.sequence), options_.batch_tokens);
    if (grow_by_preempting(0, rows)) plan_rows(first, rows);
  }
  for (const PlannedRows& rows : planned_)
    served(rows.request->request.key) += static_cast<double>(rows.rows);
  return planned_;
}

// Static batching: when nothing of the last batch is left, the first requests in line are the next.
void Scheduler::form_batch(std::span<const std::unique_ptr<ActiveRequest>> active) {
  if (!batch_.is_static()) return;
  batch_.update(active, !running_.empty());
  if (!batch_.empty()) return;
  std::vector<ActiveRequest*> line;
  for (const Entry& entry : reading_)
    if (entry.sequence == entry.request->sequences.front().get()) line.push_back(entry.request);
  batch_.form(line);
}

void Scheduler::plan_rows(const Entry& entry, int64_t rows) {
  planned_.push_back({entry.request, entry.sequence, rows});
  work_.add(rows, seen(*entry.sequence));
}

// Positions that the sequence's next row sees before itself: what its attention costs.
int64_t Scheduler::seen(const Sequence& sequence) const {
  return std::min(sequence.length, pool_.most_seen(sequence.cache));
}

// Whom grow_by_preempting() preempts is junior, so it comes later and has no rows yet.
void Scheduler::plan_single_rows() {
  for (size_t i = 0; i < running_.size() && streaming_ < options_.batch_tokens;) {
    const Entry entry = running_[i];
    if (entry.request->left(*entry.sequence) == 1) {
      // Preempted itself: the next one has its place.
      if (!grow_by_preempting(i, 1)) continue;
      plan_rows(entry, 1);
      ++streaming_;
    }
    ++i;
  }
}

// Gives running_[index] pages for `rows` more, preempting its juniors, the most junior first, and
// at last itself; false then.
bool Scheduler::grow_by_preempting(size_t index, int64_t rows) {
  const Sequence& sequence = *running_[index].sequence;
  while (!pool_.grow(sequence.cache, sequence.length + rows)) {
    size_t victim = running_.size();
    while (--victim > index && running_[victim].sequence->preemptions >= kMostPreemptions) {
    }
    preempt(victim);
    if (victim == index) return false;
  }
  return true;
}

void Scheduler::preempt(size_t index) {
  ActiveRequest& request = *running_[index].request;
  Sequence& sequence = *running_[index].sequence;
  running_.erase(running_.begin() + static_cast<ptrdiff_t>(index));
  const auto same = [&](const Entry& e) { return e.sequence == &sequence; };
  // It does not come back within this step.
  reading_.erase(std::remove_if(reading_.begin(), reading_.end(), same), reading_.end());
  if (should_swap({&request, &sequence})) sequence.swapped = swap_->write(pool_, sequence.cache);
  keep_prefix(request, sequence, true);
  pool_.release(sequence.cache);
  if (!sequence.swapped) begin_anew(request, sequence);
  sequence.cache = -1;
  sequence.length = 0;
  ++sequence.preemptions;
  ++preemptions_;
  swaps_ += sequence.swapped.has_value();
  preempted_.push_back({request.id, sequence.choice, sequence.swapped.has_value()});
}

// What was gathered over its prompt begins anew; what was told stays told.
void Scheduler::begin_anew(ActiveRequest& request, const Sequence& sequence) {
  if (!request.needs_all_rows(sequence)) return;
  request.prompt_logprobs.clear();
  request.embedding_sum.clear();
}

bool Scheduler::should_swap(const Entry& entry) const {
  if (swap_ == nullptr || options_.preemption == Preemption::recompute) return false;
  const int32_t cache = entry.sequence->cache;
  const std::optional<double> seconds = swap_->seconds_to_swap(pool_, cache);
  if (!seconds) return false;
  return options_.preemption == Preemption::swap ||
         (cost_.known() && *seconds < recompute_seconds(cache, 0, entry.sequence->length));
}

// Of the sequence's positions from .. to - 1, in steps that do nothing else.
double Scheduler::recompute_seconds(int32_t cache, int64_t from, int64_t to) const {
  const int64_t most_seen = pool_.most_seen(cache);
  double seconds = 0;
  while (from < to) {
    const int64_t rows = std::min(options_.batch_tokens, to - from);
    StepWork work;
    work.add(rows, std::min(from, most_seen));
    seconds += cost_.predict(work);
    from += rows;
  }
  return seconds;
}

void Scheduler::drop_swapped(Sequence& sequence) {
  if (!sequence.swapped) return;
  swap_->give_back(*sequence.swapped);
  sequence.swapped.reset();
}

// Completes a cache that has the first `found` positions from the swap space. Returns how many it
// has now; nullopt: the file could not be read, and the cache is of no use any more. Either way the
// swap space holds nothing of the sequence afterwards.
std::optional<int64_t> Scheduler::read_back(const Entry& entry, int32_t cache, int64_t found) {
  Sequence& sequence = *entry.sequence;
  const SwappedPages from = *sequence.swapped;
  const bool all_rows = entry.request->needs_all_rows(sequence);
  bool read = found < from.tokens;
  if (read && options_.preemption == Preemption::cheaper && !all_rows)
    read = swap_->seconds_to_read(from.bytes) < recompute_seconds(cache, found, from.tokens);
  read = read && pool_.extend(cache, from.tokens);
  const bool done = read && swap_->read(pool_, cache, found, from);
  drop_swapped(sequence);
  if (done) return from.tokens;
  begin_anew(*entry.request, sequence);
  return read ? std::nullopt : std::optional<int64_t>(found);
}

void Scheduler::plan_chunks(EngineClock::time_point now) {
  bool blocked = false;  // nobody overtakes who waits for pages
  bool no_time = false;  // for more than single rows: those of further choices
  for (const Entry& entry : reading_) {
    if (static_cast<int64_t>(work_.rows) >= options_.batch_tokens) return;
    if (entry.sequence->waiting()) {
      if (!batch_.holds(*entry.request)) continue;
      if (blocked || (no_time && entry.sequence->choice == 0) || !may_start(entry)) continue;
      if (static_cast<int>(running_.size()) >= options_.max_running || !admit(entry, now)) {
        blocked = true;
        continue;
      }
    }
    const int64_t rows = chunk_rows(entry);
    no_time = no_time || rows == 0;
    if (rows == 0 || !pool_.grow(entry.sequence->cache, entry.sequence->length + rows)) continue;
    reads_prompt_ = true;
    plan_rows(entry, rows);
  }
}

// Rows of the entry's next chunk. Beside running streams a step should take no longer than the
// target, or twice the time it takes without the chunk when that is more.
int64_t Scheduler::chunk_rows(const Entry& entry) const {
  const int64_t room = options_.batch_tokens - static_cast<int64_t>(work_.rows);
  const int64_t most = std::min(room, entry.request->left(*entry.sequence));
  if (streaming_ == 0 || entry.request->left(*entry.sequence) == 1) return most;
  int64_t rows = reads_prompt_ ? 0 : kFirstChunk;
  if (cost_.known()) {
    StepWork streams = work_;
    if (reads_prompt_) {
      streams = {};
      for (int64_t i = 0; i < streaming_; ++i)
        streams.add(1, seen(*planned_[static_cast<size_t>(i)].sequence));
    }
    const double seconds = std::max(options_.itl_target_seconds, 2 * cost_.predict(streams));
    rows = cost_.rows_within(seconds, work_, seen(*entry.sequence), most);
    if (!reads_prompt_) rows = std::max(rows, kLeastChunk);
  }
  return std::min(rows, most);
}

// The further choices of a request wait for the first one to read the prompt, and share its pages.
bool Scheduler::may_start(const Entry& entry) const {
  const Sequence& first = *entry.request->sequences.front();
  return entry.sequence == &first || !first.generated.empty() || first.finish != FinishReason::none;
}

bool Scheduler::admit(const Entry& entry, EngineClock::time_point now) {
  ActiveRequest& request = *entry.request;
  Sequence& sequence = *entry.sequence;
  int64_t available = 0;
  for (size_t g = 0; g < pool_.shape().groups.size(); ++g) available += pool_.available_pages(g);
  const std::pair<uint64_t, int> who{request.id, sequence.choice};
  if (blocked_ == who && available <= blocked_pages_ && !running_.empty()) return false;

  const int32_t cache =
      pool_.create(request.prompt_size() + request.max_tokens, request.kv_policy());
  int64_t found = take_known_part(entry, cache);
  const bool may_enter = batch_.is_static() ? pool_.reserve(cache, batch_.reserved_tokens(request))
                         : sequence.preemptions >= kMostPreemptions
                             ? pool_.reserve(cache, request.prompt_size() + request.max_tokens)
                             : fits(cache, entry);
  if (!may_enter) {
    pool_.release(cache);
    blocked_ = who;
    blocked_pages_ = available;
    return false;
  }
  if (sequence.swapped) {
    const std::optional<int64_t> all = read_back(entry, cache, found);
    if (!all) {
      pool_.release(cache);
      return admit(entry, now);
    }
    found = *all;
  }
  blocked_ = {};
  sequence.cache = cache;
  sequence.length = found;
  running_.push_back(entry);
  if (sequence.choice == 0 && found == 0) batch_.pad_prompt(request);
  if (sequence.preemptions == 0) {
    const int64_t prompt = std::min(found, request.prompt_size());
    if (sequence.choice == 0) request.summary.cached_tokens += prompt;
    cached_tokens_ += prompt;
    computed_tokens_ += request.prompt_size() - prompt;
  }
  if (!request.admitted) {
    request.admitted = now;
    ++admitted_;
  }
  return true;
}

// Fills the empty cache with what is already there of the sequence's known tokens, all but the
// last, whose logits are wanted. Returns how many.
int64_t Scheduler::take_known_part(const Entry& entry, int32_t cache) {
  const ActiveRequest& request = *entry.request;
  const Sequence& sequence = *entry.sequence;
  const int64_t most = request.known_size(sequence) - 1;
  if (most == 0 || request.needs_all_rows(sequence)) return 0;
  if (sequence.generated.empty()) {
    for (const auto& other : request.sequences) {
      if (other.get() == &sequence || !other->running() || other->length < request.prompt_size())
        continue;
      keep_prefix(request, *other, false);  // shared pages are the tree's: see its invariant
      if (pool_.fork(cache, other->cache, most)) return most;
    }
  }
  if (cache_ == nullptr || !request.kv_policy().is_full()) return 0;
  known_.assign(request.request.prompt.begin(), request.request.prompt.end());
  known_.insert(known_.end(), sequence.generated.begin(), sequence.generated.end());
  return cache_->find(cache, request.request.key, known_, most);
}

// Whether all known tokens can be stored beside those of the others, and everybody has a page to
// grow into.
bool Scheduler::fits(int32_t cache, const Entry& entry) const {
  for (size_t g = 0; g < pool_.shape().groups.size(); ++g) {
    int64_t needed = pool_.missing_pages(cache, g, entry.request->known_size(*entry.sequence));
    for (const Entry& other : running_)
      needed += 1 + pool_.missing_pages(other.sequence->cache, g,
                                        other.request->known_size(*other.sequence));
    if (needed > pool_.available_pages(g)) return false;
  }
  return true;
}

void Scheduler::finish_step(double seconds) {
  cost_.learn(work_, reads_prompt_, seconds);
  batch_.finish_step();
  if (cache_ == nullptr) return;
  const int page_tokens = pool_.shape().page_tokens;
  for (const PlannedRows& p : planned_) {
    const int64_t before = p.sequence->length - p.rows;
    const bool fills_page = before / page_tokens < p.sequence->length / page_tokens;
    if (p.rows > 1 && fills_page && p.sequence->running())
      keep_prefix(*p.request, *p.sequence, false);
  }
}

void Scheduler::keep_prefix(const ActiveRequest& request, const Sequence& sequence, bool whole) {
  if (cache_ == nullptr || !request.kv_policy().is_full()) return;
  known_.assign(request.request.prompt.begin(), request.request.prompt.end());
  known_.insert(known_.end(), sequence.generated.begin(), sequence.generated.end());
  cache_->insert(sequence.cache, request.request.key, known_, whole);
}

void Scheduler::release(ActiveRequest& request, Sequence& sequence) {
  drop_swapped(sequence);
  if (!sequence.running()) return;
  if (sequence.finish != FinishReason::error) keep_prefix(request, sequence, true);
  batch_.end(request, sequence);
  sequence.cache = -1;
  blocked_ = {};
}

}  // namespace strata
