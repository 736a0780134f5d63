#include "train/live_files.h"

#include "base/embed.h"

// STRATA_LIVE_..._FILE come from CMakeLists.txt, which also makes this file depend on them.
STRATA_EMBED(live_index, STRATA_LIVE_INDEX_FILE);
STRATA_EMBED(live_page, STRATA_LIVE_PAGE_FILE);
STRATA_EMBED(live_charts, STRATA_LIVE_CHARTS_FILE);
STRATA_EMBED(live_attention, STRATA_LIVE_ATTENTION_FILE);
STRATA_EMBED(live_style, STRATA_LIVE_STYLE_FILE);
STRATA_EMBED(live_icon, STRATA_LIVE_ICON_FILE);

namespace strata {

std::span<const LiveFile> live_files() {
  const auto text = [](const char* begin, const char* end) {
    return std::string_view(begin, static_cast<size_t>(end - begin));
  };
  static constexpr std::string_view kScript = "text/javascript; charset=utf-8";
  static const LiveFile files[] = {
      {"/", "text/html; charset=utf-8", text(strata_web_live_index, strata_web_live_index_end)},
      {"/train/page.js", kScript, text(strata_web_live_page, strata_web_live_page_end)},
      {"/train/charts.js", kScript, text(strata_web_live_charts, strata_web_live_charts_end)},
      {"/train/attention.js", kScript,
       text(strata_web_live_attention, strata_web_live_attention_end)},
      {"/train/page.css", "text/css; charset=utf-8",
       text(strata_web_live_style, strata_web_live_style_end)},
      {"/train/icon.svg", "image/svg+xml", text(strata_web_live_icon, strata_web_live_icon_end)},
  };
  return files;
}

}  // namespace strata
