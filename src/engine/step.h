#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "engine/sequence.h"
#include "engine/serve_exec.h"
#include "engine/static_batch.h"
#include "model/model.h"

namespace strata {

// Rows of one sequence in a step.
struct StepPart {
  ActiveRequest* request = nullptr;
  Sequence* sequence = nullptr;
  int32_t first_row = 0;
  int32_t rows = 0;

  int64_t first_position() const { return sequence->length; }
  bool reads_prompt() const { return sequence->length < request->prompt_size(); }
  bool ends_prompt() const {
    return reads_prompt() && sequence->length + rows >= request->prompt_size();
  }
  // Every row scores the prompt's next token: asked for, not yet told, and only by the first
  // choice.
  bool scores() const {
    return request->request.prompt_logprobs && !request->prompt_told && sequence->choice == 0;
  }
  // The last row's logits decide the next token.
  bool draws() const { return !request->request.embedding && request->left(*sequence) == rows; }
};

// One pass over the model: which rows, and what is done with the results. Memory is reused from
// step to step.
class Step {
 public:
  Step(const Model& model, const std::vector<TokenId>& end_tokens, int64_t context_length)
      : model_(&model), end_tokens_(&end_tokens), context_length_(context_length) {}

  void clear();
  bool empty() const { return tokens_.empty(); }
  int64_t rows() const { return static_cast<int64_t>(tokens_.size()); }
  // The next `rows` known tokens: of the prompt, the newest one, or those of a preempted sequence.
  void add(ActiveRequest& request, Sequence& sequence, int64_t rows);
  // Rows whose results nobody wants.
  void add_padding(const PaddingRows& padding);

  // Forward pass, draws, and one TokenEvent per sequence that drew. Sequences that ended have
  // `finish` set. Exceptions of the forward pass leave the sequences as they were.
  void run(ServeExec& exec);
  const std::vector<StepPart>& parts() const { return parts_; }

 private:
  // Fills wanted_ and places_.
  void choose_rows();
  void score_prompts(ServeExec& exec, const Tensor& hidden);
  void pool_embeddings(ServeExec& exec, const Tensor& hidden);
  void draw_tokens(ServeExec& exec, const Tensor& hidden);
  // A sequence's next token on its way from the logits to whoever reads it.
  struct Drawing {
    StepPart* part = nullptr;
    int64_t broken = -1;  // the first logit that is no number
    TokenId id = kNoToken;
    TokenLogprob logprob = {};
  };
  static void draw_token(Drawing& drawing, std::span<const float> logits);
  void tell_token(Drawing& drawing);
  FinishReason finish_after(const ActiveRequest& request, const Sequence& sequence) const;

  const Model* model_;
  const std::vector<TokenId>* end_tokens_;
  int64_t context_length_;
  std::vector<StepPart> parts_;
  std::vector<int32_t> tokens_;
  std::vector<int32_t> positions_;
  std::vector<SequenceRows> sequences_;
  std::vector<int32_t> wanted_;  // rows of the batch that something is read from, ascending
  std::vector<int32_t> places_;  // of each row of the batch in wanted_
  std::vector<int32_t> rows_;    // of wanted_ that draw
  std::vector<Drawing> drawing_;
  bool weights_checked_ = false;  // once, after a logit that is no number
  std::optional<std::string> broken_weight_;
  TokenEvent event_;  // the last one handed out; its memory serves the next
};

}  // namespace strata
