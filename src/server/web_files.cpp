#include "server/web_files.h"

#include "base/embed.h"

// STRATA_WEB_..._FILE come from CMakeLists.txt, which also makes this file depend on them.
STRATA_EMBED(index, STRATA_WEB_INDEX_FILE);
STRATA_EMBED(app, STRATA_WEB_APP_FILE);
STRATA_EMBED(api, STRATA_WEB_API_FILE);
STRATA_EMBED(dom, STRATA_WEB_DOM_FILE);
STRATA_EMBED(highlight, STRATA_WEB_HIGHLIGHT_FILE);
STRATA_EMBED(markdown, STRATA_WEB_MARKDOWN_FILE);
STRATA_EMBED(messages, STRATA_WEB_MESSAGES_FILE);
STRATA_EMBED(settings, STRATA_WEB_SETTINGS_FILE);
STRATA_EMBED(store, STRATA_WEB_STORE_FILE);
STRATA_EMBED(style, STRATA_WEB_STYLE_FILE);
STRATA_EMBED(message_style, STRATA_WEB_MESSAGE_STYLE_FILE);
STRATA_EMBED(engine, STRATA_WEB_ENGINE_FILE);
STRATA_EMBED(engine_charts, STRATA_WEB_ENGINE_CHARTS_FILE);
STRATA_EMBED(engine_style, STRATA_WEB_ENGINE_STYLE_FILE);
STRATA_EMBED(icon, STRATA_WEB_ICON_FILE);
STRATA_EMBED(marked, STRATA_WEB_MARKED_FILE);
STRATA_EMBED(purify, STRATA_WEB_PURIFY_FILE);

namespace strata::server {

std::span<const WebFile> web_files() {
  const auto text = [](const char* begin, const char* end) {
    return std::string_view(begin, static_cast<size_t>(end - begin));
  };
  static constexpr std::string_view kScript = "text/javascript; charset=utf-8";
  static const WebFile files[] = {
      {"/", "text/html; charset=utf-8", text(strata_web_index, strata_web_index_end)},
      {"/web/app.js", kScript, text(strata_web_app, strata_web_app_end)},
      {"/web/api.js", kScript, text(strata_web_api, strata_web_api_end)},
      {"/web/dom.js", kScript, text(strata_web_dom, strata_web_dom_end)},
      {"/web/engine.js", kScript, text(strata_web_engine, strata_web_engine_end)},
      {"/web/engine_charts.js", kScript,
       text(strata_web_engine_charts, strata_web_engine_charts_end)},
      {"/web/highlight.js", kScript, text(strata_web_highlight, strata_web_highlight_end)},
      {"/web/markdown.js", kScript, text(strata_web_markdown, strata_web_markdown_end)},
      {"/web/messages.js", kScript, text(strata_web_messages, strata_web_messages_end)},
      {"/web/settings.js", kScript, text(strata_web_settings, strata_web_settings_end)},
      {"/web/store.js", kScript, text(strata_web_store, strata_web_store_end)},
      {"/web/style.css", "text/css; charset=utf-8", text(strata_web_style, strata_web_style_end)},
      {"/web/message.css", "text/css; charset=utf-8",
       text(strata_web_message_style, strata_web_message_style_end)},
      {"/web/engine.css", "text/css; charset=utf-8",
       text(strata_web_engine_style, strata_web_engine_style_end)},
      {"/web/icon.svg", "image/svg+xml", text(strata_web_icon, strata_web_icon_end)},
      {"/web/marked.min.js", kScript, text(strata_web_marked, strata_web_marked_end)},
      {"/web/purify.es.js", kScript, text(strata_web_purify, strata_web_purify_end)},
  };
  return files;
}

}  // namespace strata::server
