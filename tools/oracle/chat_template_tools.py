"""How public model families build prompts with tools, documents, reasoning and content parts: the constructs of their
templates, written anew with our own words and markers."""

SEARCH = {"type": "function", "function": {"name": "find_book", "description": "Looks up a \"book\" & its shelf.\nÜmlauts <ok>", "parameters": {
    "type": "object", "properties": {
        "title": {"type": "string", "description": "exact title"},
        "year": {"type": "integer", "minimum": 1450},
        "tags": {"type": "array", "items": {"type": "string"}},
        "where": {"type": ["string", "null"], "enum": ["here", "there"]},
        "range": {"type": "object", "properties": {"low": {"type": "number", "default": 0.5}}}},
    "required": ["title"]}, "return": {"type": "string"}}}
CLOCK = {"type": "function", "function": {"name": "clock", "description": "Tells the time", "parameters": {"type": "object", "properties": {}}}}
TOOLS = [SEARCH, CLOCK]
ASK = [{"role": "system", "content": "  Be exact. "}, {"role": "user", "content": "Where is <|eot|> 'Dune'?\n"}]
CALLING = ASK + [
    {"role": "assistant", "content": "<think>\nlook it up\n</think>\n\nOne moment", "tool_calls": [
        {"id": "call00001", "type": "function", "function": {"name": "find_book", "arguments": {"title": "Dune é", "year": 1965, "tags": ["sf", "<x>"], "where": None}}},
        {"id": "call00002", "type": "function", "function": {"name": "clock", "arguments": {}}}]},
    {"role": "tool", "tool_call_id": "call00001", "name": "find_book", "content": "{\"shelf\": 7}"},
    {"role": "tool", "tool_call_id": "call00002", "name": "clock", "content": "12:00"},
    {"role": "assistant", "content": "<think>short</think>Shelf 7.", "reasoning_content": "easy\n"},
    {"role": "user", "content": "Thanks"}]
PARTS = [{"role": "user", "content": [{"type": "text", "text": " What is "}, {"type": "image"}, {"type": "text", "text": "this? "}]},
         {"role": "assistant", "content": [{"type": "text", "text": "A cat."}]}, {"role": "user", "content": "Sure?"}]
DOCUMENTS = [{"title": "Guide é", "text": "Shelf <7>", "doc_id": 3}, {"text": "No title"}]

TEMPLATES = {
    "llama-3.x": r"""{{- bos_token }}
{%- if custom_tools is defined %}{%- set tools = custom_tools %}{%- endif %}
{%- if not tools_in_user_message is defined %}{%- set tools_in_user_message = true %}{%- endif %}
{%- if not date_string is defined %}{%- set date_string = strftime_now("%d %b %Y") if strftime_now is defined else "1 Jan 2024" %}{%- endif %}
{%- if not tools is defined %}{%- set tools = none %}{%- endif %}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|trim %}{%- set messages = messages[1:] %}
{%- else %}{%- set system_message = "" %}{%- endif %}
{{- "<|head|>system<|/head|>\n\n" }}
{%- if builtin_tools is defined %}{{- "Tools: " + builtin_tools | reject('equalto', 'code') | join(", ") + "\n\n" }}{%- endif %}
{{- "Now: " + date_string + "\n\n" }}
{%- if tools is not none and not tools_in_user_message %}
    {%- for t in tools %}{{- t | tojson(indent=4) }}{{- "\n\n" }}{%- endfor %}
{%- endif %}
{{- system_message }}{{- "<|turn|>" }}
{%- if tools_in_user_message and not tools is none %}
    {%- if messages | length != 0 %}{%- set first = messages[0]['content']|trim %}{%- set messages = messages[1:] %}
    {%- else %}{{- raise_exception("No first user message to put the tools into!") }}{%- endif %}
    {{- '<|head|>user<|/head|>\n\n' -}}
    {%- for t in tools %}{{- t | tojson(indent=4) }}{{- "\n\n" }}{%- endfor %}
    {{- first + "<|turn|>"}}
{%- endif %}
{%- for message in messages %}
    {%- if not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<|head|>' + message['role'] + '<|/head|>\n\n'+ message['content'] | trim + '<|turn|>' }}
    {%- elif 'tool_calls' in message %}
        {%- for tool_call in message.tool_calls %}{%- set tool_call = tool_call.function %}
            {{- '<|head|>assistant<|/head|>\n\n' -}}
            {%- if builtin_tools is defined and tool_call.name in builtin_tools %}
                {{- "<|py|>" + tool_call.name + ".call(" }}
                {%- for arg_name, arg_val in tool_call.arguments | items %}
                    {{- arg_name + '="' ~ arg_val ~ '"' }}{%- if not loop.last %}{{- ", " }}{%- endif %}
                {%- endfor %}{{- ")" }}
            {%- else %}{{- '{"name": "' + tool_call.name + '", "parameters": ' }}{{- tool_call.arguments | tojson }}{{- "}" }}{%- endif %}
            {{- "<|turn|>" if not loop.last else "<|eom|>" }}
        {%- endfor %}
    {%- elif message.role == "tool" or message.role == "ipython" %}
        {{- "<|head|>ipython<|/head|>\n\n" }}
        {%- if message.content is mapping or (message.content is iterable and message.content is not string) %}{{- message.content | tojson }}{%- else %}{{- message.content }}{%- endif %}
        {{- "<|turn|>" }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|head|>assistant<|/head|>\n\n' }}{%- endif %}
""",
    "mistral-v7": r"""{%- set today = strftime_now("%Y-%m-%d") %}{%- set default_system_message = "You are a helper. Today is " + today + "." %}
{{- bos_token }}
{%- if messages[0]['role'] == 'system' %}
    {%- if messages[0]['content'] is string %}{%- set system_message = messages[0]['content'] %}{%- else %}{%- set system_message = messages[0]['content'][0]['text'] %}{%- endif %}
    {%- set loop_messages = messages[1:] %}
{%- else %}{%- set system_message = default_system_message %}{%- set loop_messages = messages %}{%- endif %}
{{- '[SYS]' + system_message + '[/SYS]' }}
{%- set has_tools = tools is defined and tools is not none and tools | length > 0 %}
{%- if has_tools %}{{- '[TOOLS]' + (tools | tojson) + '[/TOOLS]' }}{%- endif %}
{%- for message in loop_messages %}
    {%- if message['role'] == 'user' %}
        {%- if message['content'] is string %}{{- '[U]' + message['content'] + '[/U]' }}
        {%- else %}{{- '[U]' }}
            {%- for block in message['content'] %}
                {%- if block['type'] == 'text' %}{{- block['text'] }}{%- elif block['type'] in ['image', 'image_url'] %}{{- '[IMG]' }}{%- else %}{{- raise_exception('Only text and images!') }}{%- endif %}
            {%- endfor %}{{- '[/U]' }}
        {%- endif %}
    {%- elif message['role'] == 'assistant' %}
        {%- if 'tool_calls' in message and message['tool_calls'] is not none and message['tool_calls'] | length > 0 %}
            {%- for call in message['tool_calls'] %}
                {%- set arguments = call.function.arguments %}
                {%- if arguments is not string %}{%- set arguments = arguments | tojson | string %}{%- endif %}
                {{- '[CALL]' + call.function.name + '[ID]' + (call.id or 'none') + '[ARGS]' + arguments }}
            {%- endfor %}{{- eos_token }}
        {%- elif message['content'] is string %}{{- message['content'] + eos_token }}
        {%- else %}{{- message['content'][0]['text'] + eos_token }}{%- endif %}
    {%- elif message['role'] == 'tool' %}{{- '[RESULT]' + message['tool_call_id'] + '[TEXT]' + message['content']|string + '[/RESULT]' }}
    {%- else %}{{- raise_exception('Unknown role ' ~ message['role']) }}{%- endif %}
{%- endfor %}""",
    "qwen-2.5": r"""{%- if tools %}
    {{- '<|s|>system\n' }}
    {%- if messages[0]['role'] == 'system' %}{{- messages[0]['content'] }}{%- else %}{{- 'Be kind.' }}{%- endif %}
    {{- "\n\n# Tools\n\n<tools>" }}
    {%- for tool in tools %}{{- "\n" }}{{- tool | tojson }}{%- endfor %}
    {{- "\n</tools>\n{\"name\": <name>, \"arguments\": <json>}<|e|>\n" }}
{%- else %}
    {%- if messages[0]['role'] == 'system' %}{{- '<|s|>system\n' + messages[0]['content'] + '<|e|>\n' }}{%- else %}{{- '<|s|>system\nBe kind.<|e|>\n' }}{%- endif %}
{%- endif %}
{%- for message in messages %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) or (message.role == "assistant" and not message.tool_calls) %}
        {{- '<|s|>' + message.role + '\n' + message.content + '<|e|>' + '\n' }}
    {%- elif message.role == "assistant" %}
        {{- '<|s|>' + message.role }}
        {%- if message.content %}{{- '\n' + message.content }}{%- endif %}
        {%- for tool_call in message.tool_calls %}
            {%- if tool_call.function is defined %}{%- set tool_call = tool_call.function %}{%- endif %}
            {{- '\n<call>\n{"name": "' }}{{- tool_call.name }}{{- '", "arguments": ' }}{{- tool_call.arguments | tojson }}{{- '}\n</call>' }}
        {%- endfor %}{{- '<|e|>\n' }}
    {%- elif message.role == "tool" %}
        {%- if (loop.index0 == 0) or (messages[loop.index0 - 1].role != "tool") %}{{- '<|s|>user' }}{%- endif %}
        {{- '\n<result>\n' }}{{- message.content }}{{- '\n</result>' }}
        {%- if loop.last or (messages[loop.index0 + 1].role != "tool") %}{{- '<|e|>\n' }}{%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|s|>assistant\n' }}{%- endif %}
""",
    "qwen-3-coder": r"""{% macro render_extra_keys(json_dict, handled_keys) %}
    {%- if json_dict is mapping %}
        {%- for json_key in json_dict if json_key not in handled_keys %}
            {%- if json_dict[json_key] is mapping or (json_dict[json_key] is sequence and json_dict[json_key] is not string) %}
                {{- '\n<' ~ json_key ~ '>' ~ (json_dict[json_key] | tojson | safe) ~ '</' ~ json_key ~ '>' }}
            {%- else %}{{-'\n<' ~ json_key ~ '>' ~ (json_dict[json_key] | string) ~ '</' ~ json_key ~ '>' }}{%- endif %}
        {%- endfor %}
    {%- endif %}
{% endmacro %}
{%- if tools is iterable and tools | length > 0 %}
    {{- "<tools>" }}
    {%- for tool in tools %}
        {%- if tool.function is defined %}{%- set tool = tool.function %}{%- endif %}
        {{- "\n<function>\n<name>" ~ tool.name ~ "</name>" }}
        {%- if tool.description is defined %}{{- '\n<description>' ~ (tool.description | trim) ~ '</description>' }}{%- endif %}
        {%- if tool.parameters is defined and tool.parameters is mapping and tool.parameters.properties is defined and tool.parameters.properties is mapping %}
            {%- for param_name, param_fields in tool.parameters.properties|items %}
                {{- '\n<parameter>\n<name>' ~ param_name ~ '</name>' }}
                {%- if param_fields.type is defined %}{{- '\n<type>' ~ (param_fields.type | string) ~ '</type>' }}{%- endif %}
                {%- set handled_keys = ['name', 'type', 'description'] %}
                {{- render_extra_keys(param_fields, handled_keys) }}{{- '\n</parameter>' }}
            {%- endfor %}
        {%- endif %}
        {{- render_extra_keys(tool.parameters, ['type', 'properties']) }}
        {{- render_extra_keys(tool, ['type', 'name', 'description', 'parameters']) }}{{- '\n</function>' }}
    {%- endfor %}{{- "\n</tools>" }}
{%- endif %}
{%- for message in messages %}
    {%- if message.role == "assistant" and message.tool_calls is defined and message.tool_calls is iterable and message.tool_calls | length > 0 %}
        {{- '<|s|>' + message.role }}
        {%- if message.content is defined and message.content is string and message.content | trim | length > 0 %}{{- '\n' + message.content | trim + '\n' }}{%- endif %}
        {%- for tool_call in message.tool_calls %}
            {%- if tool_call.function is defined %}{%- set tool_call = tool_call.function %}{%- endif %}
            {{- '\n<call>\n<function=' + tool_call.name + '>\n' }}
            {%- if tool_call.arguments is defined %}
                {%- for args_name, args_value in tool_call.arguments|items %}
                    {{- '<parameter=' + args_name + '>\n' }}
                    {%- set args_value = args_value | tojson | safe if args_value is mapping or (args_value is sequence and args_value is not string) else args_value | string %}
                    {{- args_value }}{{- '\n</parameter>\n' }}
                {%- endfor %}
            {%- endif %}{{- '</function>\n</call>' }}
        {%- endfor %}{{- '<|e|>\n' }}
    {%- elif message.role in ("user", "system", "assistant") %}{{- '<|s|>' + message.role + '\n' + message.content + '<|e|>' + '\n' }}
    {%- elif message.role == "tool" %}
        {%- if loop.previtem and loop.previtem.role != "tool" %}{{- '<|s|>user\n' }}{%- endif %}
        {{- '<result>\n' }}{{- message.content }}{{- '\n</result>\n' }}
        {%- if not loop.last and loop.nextitem.role != "tool" %}{{- '<|e|>\n' }}{%- elif loop.last %}{{- '<|e|>\n' }}{%- endif %}
    {%- endif %}
{%- endfor %}""",
    "deepseek-v3": r"""{% if not add_generation_prompt is defined %}{% set add_generation_prompt = false %}{% endif %}{% set ns = namespace(is_first=false, is_tool=false, is_output_first=true, system_prompt='', is_first_sp=true, is_last_user=false) %}
{%- for message in messages %}{%- if message['role'] == 'system' %}{%- if ns.is_first_sp %}{% set ns.system_prompt = ns.system_prompt + message['content'] %}{% set ns.is_first_sp = false %}{%- else %}{% set ns.system_prompt = ns.system_prompt + '\n\n' + message['content'] %}{%- endif %}{%- endif %}{%- endfor %}{{ bos_token }}{{ ns.system_prompt }}
{%- for message in messages %}{% set content = message['content'] %}
{%- if message['role'] == 'user' %}{%- set ns.is_tool = false -%}{%- set ns.is_first = false -%}{%- set ns.is_last_user = true -%}{{'<|User|>' + content + '<|Assistant|>'}}{%- endif %}
{%- if message['role'] == 'assistant' %}{% if '</think>' in content %}{% set content = (content.split('</think>')|last) %}{% endif %}{% endif %}
{%- if message['role'] == 'assistant' and message['tool_calls'] is defined and message['tool_calls'] is not none %}{%- set ns.is_last_user = false -%}{%- if ns.is_tool %}{{'<|outputs end|>'}}{%- endif %}{%- set ns.is_first = false %}{%- set ns.is_tool = false -%}{%- set ns.is_output_first = true %}
{%- for tool in message['tool_calls'] %}{%- if not ns.is_first %}{%- if content is none %}{{'<|calls|><|call|>' + tool['type'] + '<|sep|>' + tool['function']['name'] + '\n' + '```json' + '\n' + tool['function']['arguments']|tojson + '\n' + '```' + '<|/call|>'}}{%- else %}{{content + '<|calls|><|call|>' + tool['type'] + '<|sep|>' + tool['function']['name'] + '\n' + '```json' + '\n' + tool['function']['arguments']|tojson + '\n' + '```' + '<|/call|>'}}{%- endif %}{%- set ns.is_first = true -%}{%- else %}{{'\n' + '<|call|>' + tool['type'] + '<|sep|>' + tool['function']['name'] + '\n' + tool['function']['arguments']|tojson + '<|/call|>'}}{%- endif %}{%- endfor %}{{'<|/calls|>' + eos_token}}{%- endif %}
{%- if message['role'] == 'assistant' and (message['tool_calls'] is not defined or message['tool_calls'] is none)%}{%- set ns.is_last_user = false -%}{%- if ns.is_tool %}{{'<|outputs end|>' + content + eos_token}}{%- set ns.is_tool = false -%}{%- else %}{{content + eos_token}}{%- endif %}{%- endif %}
{%- if message['role'] == 'tool' %}{%- set ns.is_tool = true -%}{%- if ns.is_output_first %}{{'<|outputs|><|output|>' + content + '<|/output|>'}}{%- set ns.is_output_first = false %}{%- else %}{{'\n<|output|>' + content + '<|/output|>'}}{%- endif %}{%- endif %}
{%- endfor -%}{% if ns.is_tool %}{{'<|outputs end|>'}}{% endif %}{% if add_generation_prompt and not ns.is_last_user and not ns.is_tool %}{{'<|Assistant|>'}}{% endif %}""",
    "phi-4": r"""{% for message in messages %}{% if message['role'] == 'system' and 'tools' in message and message['tools'] is not none %}{{ '<|' + message['role'] + '|>' + message['content'] + '<|tool|>' + message['tools'] + '<|/tool|>' + '<|end|>' }}{% elif message['content'] is string %}{{ '<|' + message['role'] + '|>' + message['content'] + '<|end|>' }}{% else %}{{ '<|' + message['role'] + '|>' }}{% for part in message['content'] %}{% if part.type == 'image' %}{{ '<|image_' ~ loop.index ~ '|>\n' }}{% else %}{{ part.text }}{% endif %}{% endfor %}{{ '<|end|>' }}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>' }}{% else %}{{ eos_token }}{% endif %}""",
    "gemma-3": r"""{{ bos_token }}
{%- if messages[0]['role'] == 'system' -%}
    {%- if messages[0]['content'] is string -%}{%- set first_user_prefix = messages[0]['content'] + '

' -%}
    {%- else -%}{%- set first_user_prefix = messages[0]['content'][0]['text'] + '

' -%}{%- endif -%}
    {%- set loop_messages = messages[1:] -%}
{%- else -%}{%- set first_user_prefix = "" -%}{%- set loop_messages = messages -%}{%- endif -%}
{%- for message in loop_messages -%}
    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) -%}{{ raise_exception("Conversation roles must alternate user/assistant") }}{%- endif -%}
    {%- if (message['role'] == 'assistant') -%}{%- set role = "model" -%}{%- else -%}{%- set role = message['role'] -%}{%- endif -%}
    {{ '<turn>' + role + '
' + (first_user_prefix if loop.first else "") }}
    {%- if message['content'] is string -%}{{ message['content'] | trim }}
    {%- elif message['content'] is iterable -%}
        {%- for item in message['content'] -%}{%- if item['type'] == 'image' -%}{{ '<image>' }}{%- elif item['type'] == 'text' -%}{{ item['text'] | trim }}{%- endif -%}{%- endfor -%}
    {%- else -%}{{ raise_exception("Invalid content type") }}{%- endif -%}
    {{ '</turn>
' }}
{%- endfor -%}
{%- if add_generation_prompt -%}{{'<turn>model
'}}{%- endif -%}
""",
    "command-r-grounded": r"""{% macro document_turn(documents) -%}
<|sys|>{% if documents %}<results>
{% for doc in documents %}{{ "\n" if not loop.first }}Document: {{ loop.index0 }}
{% for key, val in doc.items() if key != 'doc_id' %}{{ key|title }}: {{ val }}{{ "\n" if not loop.last else "" }}{% endfor %}
{%- endfor %}
</results>{% endif %}<|end|>
{%- endmacro %}
{%- macro python_type(p) -%}
{%- if p.type is string -%}{{ {'string': 'str', 'integer': 'int', 'number': 'float', 'boolean': 'bool'}.get(p.type, 'Dict' if p.type == 'object' else 'List[' ~ python_type(p['items'] or {'type': 'any'}) ~ ']' if p.type == 'array' else 'Any') }}
{%- elif p.type is iterable -%}Union[{% for t in p.type %}{{ python_type({'type': t}) }}{{ ', ' if not loop.last }}{% endfor %}]
{%- else -%}Any{%- endif -%}
{%- endmacro %}
{{- bos_token }}
{%- if tools %}{% for tool in tools|map(attribute='function') %}
```python
def {{ tool.name }}({% for n, p in tool.parameters.properties.items() %}{{ n }}: {{ python_type(p) if n in (tool.parameters.required or []) else 'Optional[' ~ python_type(p) ~ '] = None' }}{{ ', ' if not loop.last }}{% endfor %}):
    """ + '"""' + r"""{{ tool.description|indent(4) }}{% if tool.parameters.properties %}

    Args:
{%- for n, p in tool.parameters.properties|dictsort %}

        {{ n }} ({{ python_type(p) }}): {{ p.description|default('no description', true) }}
{%- endfor %}{% endif %}

    """ + '"""' + r"""
```{% endfor %}{% endif %}
{%- for message in messages %}
{%- set content = message.content if message.content is string else message.content|selectattr('type', 'equalto', 'text')|map(attribute='text')|map('trim')|join(' ') %}
{%- if message.role == 'user' %}<|usr|>{{ content|trim }}<|end|>{{ document_turn(documents) if loop.last }}
{%- elif message.role == 'assistant' %}<|bot|>{% if message.tool_calls %}Action: ```json
[{% for call in message.tool_calls %}
    {{ {'tool_name': call.function.name, 'parameters': call.function.arguments}|tojson(indent=4)|indent(4) }}{{ ',' if not loop.last }}{% endfor %}
]
```{% else %}{{ content }}{% endif %}<|end|>
{%- elif message.role == 'tool' %}<|sys|>{{ loop.changed(message.role) and '<results>' or '' }}{{ content }}<|end|>{% endif %}
{%- endfor %}{% if add_generation_prompt %}<|bot|>{% endif %}""",
    "granite-3": r"""{%- if messages[0]['role'] == 'system' %}{%- set system_message = messages[0]['content'] %}{%- set loop_messages = messages[1:] %}
{%- else %}{%- set system_message = "Today: " + strftime_now('%B %d, %Y') + "." %}
    {%- if tools and documents %}{%- set system_message = system_message + " Tools, documents." %}{%- elif documents %}{%- set system_message = system_message + " Documents." %}{%- elif thinking %}{%- set system_message = system_message + " Think." %}{%- endif %}
    {%- if controls and 'citations' in controls and documents %}{%- set system_message = system_message + ' Cite <co>.' %}{%- endif %}
    {%- set loop_messages = messages %}{%- endif %}
{{- '<r>system</r>' + system_message + '<t>\n' }}
{%- if tools %}{{- '<r>tools</r>' }}{{- tools | tojson(indent=4) }}{{- '<t>\n' }}{%- endif %}
{%- if documents %}
    {%- for document in documents %}
        {{- '<r>document {"id": "' + document['doc_id'] | string + '"}</r>\n' if document.doc_id is defined else '<r>document</r>\n' }}{{- document['text'] + '<t>\n' }}
    {%- endfor %}
{%- endif %}
{%- for message in loop_messages %}
    {{- '<r>' + message['role'] + '</r>' + (message['content'] if message.content is string else message.content|tojson) }}
    {%- if message.tool_calls %}{%- for call in message.tool_calls %}{{- '\n<call>' + call.function|tojson }}{%- endfor %}{%- endif %}{{- '<t>\n' }}
    {%- if loop.last and add_generation_prompt %}{{- '<r>assistant' }}{%- if controls %}{{- ' ' + controls | tojson()}}{%- endif %}{{- '</r>' }}{%- endif %}
{%- endfor %}""",
    "llama-2": r"""{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}{% set system_message = messages[0]['content'] %}{% else %}{% set loop_messages = messages %}{% set system_message = false %}{% endif %}{% for message in loop_messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Roles must alternate user/assistant/...') }}{% endif %}{% if loop.index0 == 0 and system_message != false %}{% set content = '<<S>>\n' + system_message + '\n<</S>>\n\n' + message['content'] %}{% else %}{% set content = message['content'] %}{% endif %}{% if message['role'] == 'user' %}{{ bos_token + '[I] ' + content.strip() + ' [/I]' }}{% elif message['role'] == 'system' %}{{ '<<S>>\n' + content.strip() + '\n<</S>>\n\n' }}{% elif message['role'] == 'assistant' %}{{ ' ' + content.strip() + ' ' + eos_token }}{% endif %}{% endfor %}""",
    "vicuna": r"""{%- set found_item = false -%}{%- for message in messages -%}{%- if message['role'] == 'system' -%}{%- set found_item = true -%}{%- endif -%}{%- endfor -%}{%- if not found_item -%}{{'A chat. '}}{%- endif %}{%- for message in messages %}{%- if message['role'] == 'system' %}{{ message['content'] + ' ' }}{%- elif message['role'] == 'user' -%}{{'USER: ' ~ message['content'] ~ ' '}}{%- else -%}{{'ASSISTANT: ' ~ message['content'] ~ eos_token}}{%- endif -%}{%- endfor -%}{%- if add_generation_prompt -%}{{'ASSISTANT:'}}{%- endif -%}""",
    "smollm-3": r"""{%- if enable_thinking is not defined -%}{%- set enable_thinking = true -%}{%- endif -%}
{%- set reasoning_mode = "/think" if enable_thinking else "/no_think" -%}
{{- "<|s|>system\n" -}}
{%- if messages[0].role == "system" -%}
  {%- set system_message = messages[0].content -%}
  {%- if "/no_think" in system_message -%}{%- set reasoning_mode = "/no_think" -%}{%- endif -%}
  {%- set custom_instructions = system_message.replace("/no_think", "").replace("/think", "").rstrip() -%}
{%- endif -%}
{{- "## Meta\n\nToday: " + strftime_now("%d %B %Y") + "\nMode: " + reasoning_mode + "\n\n" -}}
{%- if custom_instructions -%}{{- custom_instructions + "\n\n" -}}{%- endif -%}
{%- if xml_tools or python_tools or tools -%}
  {%- set ns = namespace(xml_tool_string="<tools>\n") -%}
  {%- for tool in (xml_tools or tools)[:] -%}{%- set ns.xml_tool_string = ns.xml_tool_string ~ (tool | string) ~ "\n" -%}{%- endfor -%}
  {{- ns.xml_tool_string + "</tools>\n" -}}
{%- endif -%}{{- "<|e|>\n" -}}
{%- for message in messages -%}
  {%- set content = message.content if message.content is string else "" -%}
  {%- if message.role == "user" -%}{{ "<|s|>" + message.role + "\n"  + content + "<|e|>\n" }}
  {%- elif message.role == "assistant" -%}
    {% generation %}
    {%- if reasoning_mode == "/think" -%}{{ "<|s|>assistant\n" + content.lstrip("\n") + "<|e|>\n" }}{%- else -%}{{ "<|s|>assistant\n" + "<think>\n\n</think>\n" + content.lstrip("\n") + "<|e|>\n" }}{%- endif -%}
    {% endgeneration %}
  {%- elif message.role == "tool" -%}{{ "<|s|>" + "user\n"  + content + "<|e|>\n" }}{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{%- if reasoning_mode == "/think" -%}{{ "<|s|>assistant\n" }}{%- else -%}{{ "<|s|>assistant\n" + "<think>\n\n</think>\n"  }}{%- endif -%}{%- endif -%}""",
    "hermes-recursive": r"""{%- macro json_to_python_type(json_spec) %}
{%- set basic = {"string": "str", "number": "float", "integer": "int", "boolean": "bool"} %}
{%- if basic[json_spec.type] is defined %}{{- basic[json_spec.type] }}
{%- elif json_spec.type == "array" %}{{- "list[" + json_to_python_type(json_spec['items']) + "]" }}
{%- elif json_spec.type == "object" %}
    {%- if json_spec.additionalProperties is defined %}{{- "dict[str, " + json_to_python_type(json_spec.additionalProperties) + ']' }}{%- else %}{{- "dict" }}{%- endif %}
{%- elif json_spec.type is iterable and json_spec.type is not string %}{{- "Union[" }}{%- for t in json_spec.type %}{{- json_to_python_type({"type": t}) }}{%- if not loop.last %}{{- "," }}{%- endif %}{%- endfor %}{{- "]" }}
{%- else %}{{- "Any" }}{%- endif %}
{%- endmacro %}
{{- bos_token }}{{- '<tools> ' }}
{%- for tool in tools or [] %}
    {%- if tool.function is defined %}{%- set tool = tool.function %}{%- endif %}
    {{- '{"name": "' + tool.name + '", "description": "' }}{{- tool.name + '(' }}
    {%- for param_name, param_fields in tool.parameters.properties|items %}{{- param_name + ": " + json_to_python_type(param_fields) }}{%- if not loop.last %}{{- ", " }}{%- endif %}{%- endfor %}{{- ")" }}
    {%- if tool.return is defined %}{{- " -> " + json_to_python_type(tool.return) }}{%- endif %}
    {{- " - " + tool.description }}
    {%- for param_name, param_fields in tool.parameters.properties|items %}{%- if loop.first %}{{- "\n    Args:" }}{%- endif %}{{- "\n        " + param_name + "(" + json_to_python_type(param_fields) + "): " + (param_fields.description|default('?'))|trim }}{%- endfor %}
    {{- '", "parameters": ' }}
    {%- if tool.parameters.properties | length == 0 %}{{- "{}" }}{%- else %}{{- tool.parameters|tojson }}{%- endif %}{{- "}" }}{%- if not loop.last %}{{- "\n" }}{%- endif %}
{%- endfor %}{{- " </tools>" }}
{%- for message in messages %}{{- '\n' ~ message.role ~ ': ' ~ (message.content if message.content is string else message.content|length ~ ' parts') }}{%- endfor %}""",
    "glm-4": r"""[g]<s>
{%- macro visible_text(content) -%}
    {%- if content is string -%}{{- content }}
    {%- elif content is iterable and content is not mapping -%}{%- for item in content -%}{%- if item is mapping and item.type == 'text' -%}{{- item.text }}{%- elif item is string -%}{{- item }}{%- endif -%}{%- endfor -%}
    {%- else -%}{{- content }}{%- endif -%}
{%- endmacro -%}
{%- set ns = namespace(last_user_index=-1) %}
{%- for m in messages %}{%- if m.role == 'user' %}{% set ns.last_user_index = loop.index0 -%}{%- endif %}{%- endfor %}
{% for m in messages %}
{%- if m.role == 'user' -%}<|user|>
{{ visible_text(m.content) }}
{{- '/nothink' if (enable_thinking is defined and not enable_thinking and not visible_text(m.content).endswith("/nothink")) else '' -}}
{%- elif m.role == 'assistant' -%}<|assistant|>
{%- set reasoning_content = '' %}{%- set content = visible_text(m.content) %}
{%- if m.reasoning_content is string %}{%- set reasoning_content = m.reasoning_content %}
{%- else %}{%- if '</think>' in content %}{%- set reasoning_content = content.split('</think>')[0].rstrip('\n').split('<think>')[-1].lstrip('\n') %}{%- set content = content.split('</think>')[-1].lstrip('\n') %}{%- endif %}{%- endif %}
{%- if loop.index0 > ns.last_user_index and reasoning_content -%}{{ '\n<think>' + reasoning_content.strip() +  '</think>'}}{%- else -%}{{ '\n<think></think>' }}{%- endif -%}
{%- if content.strip() -%}{{ '\n' + content.strip() }}{%- endif -%}
{% if m.tool_calls %}{% for tc in m.tool_calls %}{%- if tc.function %}{%- set tc = tc.function %}{%- endif %}
{{ '\n<call>' + tc.name }}
{% set _args = tc.arguments %}{% for k, v in _args.items() %}<k>{{ k }}</k>
<v>{{ v | tojson(ensure_ascii=False) if v is not string else v }}</v>
{% endfor %}</call>{% endfor %}{% endif %}
{%- elif m.role == 'tool' -%}
{%- if loop.first or (messages[loop.index0 - 1].role != "tool") %}{{- '<|observation|>' }}{%- endif %}
{{- '\n<response>\n' }}{{- m.content }}{{- '\n</response>' }}
{%- elif m.role == 'system' -%}<|system|>
{{ visible_text(m.content) }}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}<|assistant|>{{- '\n<think></think>' if (enable_thinking is defined and not enable_thinking) else '' -}}{%- endif -%}""",
    "oss-channels": r"""{%- macro render_params(spec, indent=0) -%}
    {%- for name, p in spec.properties|default({})|items -%}
        {{- "\n" ~ "  " * (indent + 1) ~ "// " ~ p.description if p.description }}
        {{- "\n" ~ "  " * (indent + 1) ~ name ~ ("" if name in spec.required|default([]) else "?") ~ ": " }}
        {%- if p.properties %}{{ "{" ~ render_params(p, indent + 1) ~ "\n" ~ "  " * (indent + 1) ~ "}" }}{% elif p.enum %}{{ p.enum|map("tojson")|join(" | ") }}{% else %}{{ p.type if p.type is string else p.type|join(" | ") }}{% endif -%},
        {{- " // default: " ~ p.default|tojson if p.default is defined }}
    {%- endfor -%}
{%- endmacro -%}
{%- set model_identity = model_identity|default("A model.") -%}
<|b|>system<|m|>{{ model_identity }} Effort: {{ reasoning_effort|default("medium") }}
{%- if tools %} Calls go to 'commentary'.{% endif %}<|/b|>
{%- if messages[0].role in ["developer", "system"] %}{% set developer = messages[0].content %}{% set messages = messages[1:] %}{% endif %}
{%- if developer or tools %}<|b|>developer<|m|>{{ developer|default("")|trim }}
{%- if tools %}

namespace functions {
{%- for tool in tools %}{% set f = tool.function %}

{{ f.description.split("\n")|map("trim")|map("replace", "<", "‹")|join("\n// ")|indent(0) }}
type {{ f.name }} = ({% if f.parameters.properties %}_: { {{- render_params(f.parameters) }}
}{% endif %}) => any;
{%- endfor %}
}{% endif %}<|/b|>{% endif %}
{%- set ns = namespace(last_call=none) %}
{%- for message in messages %}
    {%- if message.role == "assistant" and message.tool_calls %}
        {%- for call in message.tool_calls %}{% set ns.last_call = call.function.name %}<|b|>assistant to=functions.{{ call.function.name }}<|c|>commentary json<|m|>{{ call.function.arguments|tojson(separators=(",", ":")) }}<|/b|>{% endfor %}
    {%- elif message.role == "tool" %}
        {%- if ns.last_call is none %}{{ raise_exception("A tool's answer without a call") }}{% endif %}<|b|>functions.{{ message.name or ns.last_call }} to=assistant<|m|>{{ message.content|tojson }}<|/b|>
    {%- else %}<|b|>{{ message.role }}{{ "<|c|>final" if message.role == "assistant" }}<|m|>{{ message.content if message.content is string else message.content|tojson }}<|/b|>{% endif %}
{%- endfor %}
{%- if add_generation_prompt %}<|b|>assistant{% endif %}""",
    "llava-parts": r"""{% for message in messages %}{{ message['role'].upper() + ': ' }}{% if message['content'] is not string %}{# images first #}{% for content in message['content'] | selectattr('type', 'equalto', 'image') %}{{ '<image>\n' }}{% endfor %}{# then text #}{% if message['role'] != 'assistant' %}{% for content in message['content'] | selectattr('type', 'equalto', 'text') %}{{ content['text'] + ' '}}{% endfor %}{% else %}{% for content in message['content'] | selectattr('type', 'equalto', 'text') %}{% generation %}{{ content['text'] + ' '}}{% endgeneration %}{% endfor %}{% endif %}{% else %}{{ message.content }} {% endif %}{% endfor %}{% if add_generation_prompt %}{{ 'ASSISTANT:' }}{% endif %}""",
    "call-blocks": r"""{%- macro turn(role, close=true) -%}<|{{ role }}|>{{ caller() | trim }}{{ "<|/" ~ role ~ "|>" if close }}{%- endmacro -%}
{%- macro listed(items, sep=", ") -%}{%- for item in items -%}{{ caller(item, loop.last) }}{{ sep if not loop.last }}{%- endfor -%}{%- endmacro -%}
{%- for message in messages -%}
{%- call turn(message.role, close=not loop.last) -%}
{%- if message.tool_calls -%}{%- call(tool, last) listed(message.tool_calls, sep=" & ") -%}{{ tool.function.name }}({%- for k, v in tool.function.arguments|dictsort -%}{{ k }}={{ v|tojson }}{{ "," if not loop.last }}{%- endfor -%}){{ "." if last }}{%- endcall -%}
{%- else -%}{{ message.content if message.content is string else message.content|map(attribute="text", default="[image]")|join }}{%- endif -%}
{%- endcall -%}
{%- endfor -%}
{%- set count -%}{{ messages|rejectattr("role", "in", ["tool", "system"])|list|length }}{%- endset %} {{ count }} turns{% filter upper|replace("E", "3") %} by {{ messages|map(attribute="role")|unique|join("+") }}{% endfilter %}""",
}


def cases():
    talks = {"ask": (ASK, {}), "calling": (CALLING, {}), "parts": (PARTS, {"enable_thinking": False}),
             "documents": (ASK, {"documents": DOCUMENTS, "controls": {"citations": True, "length": "short"}, "builtin_tools": ["code", "clock"]})}
    for name, template in TEMPLATES.items():
        for talk, (messages, extra) in talks.items():
            yield {"name": f"{name}/{talk}", "template": template,
                   "inputs": {"messages": messages, "tools": TOOLS if talk != "parts" else None, "extra": extra, "add_generation_prompt": talk != "parts"}}
