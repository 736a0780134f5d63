// Talks to the server: its models, and answers as they are generated.

// status: of HTTP; 0 when no answer came, or when it broke off.
export class ApiError extends Error {
  constructor(status, message, code = '') {
    super(message);
    this.status = status;
    this.code = code;
  }
}

const UNREACHABLE = 'The server cannot be reached. Is it still running?';
const BROKEN_OFF = 'The connection ended in the middle of the answer.';

function headers(key) {
  const h = {'Content-Type': 'application/json'};
  if (key) h.Authorization = `Bearer ${key}`;
  return h;
}

async function errorOf(response, withKey) {
  if (response.status === 401) {
    return new ApiError(401, withKey ? 'The server does not accept this API key.' : 'This server wants an API key.');
  }
  try {
    const {error} = await response.json();
    return new ApiError(response.status, error.message, error.code ?? '');
  } catch {
    return new ApiError(response.status, `The server answered ${response.status}.`);
  }
}

async function call(path, key, options) {
  let response;
  try {
    response = await fetch(path, {...options, headers: headers(key)});
  } catch (error) {
    throw error.name === 'AbortError' ? error : new ApiError(0, UNREACHABLE);
  }
  if (!response.ok) throw await errorOf(response, Boolean(key));
  return response;
}

// [{id, context_length, ...}]
export async function listModels(key) {
  const response = await call('/v1/models', key, {});
  return (await response.json()).data;
}

// What the engine of a model did after step `number`, and what it does now: GET /engine/steps.
export async function engineSteps(model, number, key) {
  const response = await call(`/engine/steps/${encodeURIComponent(model)}/${number}`, key, {});
  return response.json();
}

// Complete events of a text/event-stream, as {event, data}.
async function* events(stream) {
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (;;) {
    const {value, done} = await reader.read();
    if (done) return;
    rest += value;
    const parts = rest.split('\n\n');
    rest = parts.pop();
    for (const part of parts) {
      const found = {event: 'message', data: ''};
      for (const line of part.split('\n')) {
        if (line.startsWith('data: ')) found.data += line.slice(6);
        if (line.startsWith('event: ')) found.event = line.slice(7);
      }
      if (found.data) yield found;
    }
  }
}

// Takes one chunk into `result`; returns the text it brings.
function takeChunk(chunk, result) {
  if (chunk.usage) result.usage = chunk.usage;
  if (chunk.timings) result.timings = chunk.timings;
  const choice = chunk.choices[0];
  if (choice?.finish_reason) result.finish = choice.finish_reason;
  return choice?.delta.content ?? '';
}

// Streams one answer: calls onText(delta, result so far) and returns the result {finish, usage, timings}.
// Throws ApiError, or AbortError when `signal` stops it.
export async function streamChat(body, key, signal, onText) {
  const options = {include_usage: true, continuous_usage_stats: true};
  const response = await call('/v1/chat/completions', key, {
    method: 'POST',
    body: JSON.stringify({...body, stream: true, stream_options: options, timings: true}),
    signal,
  });
  const result = {finish: null, usage: null, timings: null};
  try {
    for await (const {event, data} of events(response.body)) {
      if (data === '[DONE]') return result;
      const chunk = JSON.parse(data);
      if (event === 'error') throw new ApiError(chunk.error.code, chunk.error.message);
      const text = takeChunk(chunk, result);
      if (text) onText(text, result);
    }
  } catch (error) {
    if (error.name === 'AbortError' || error instanceof ApiError) throw error;
    throw new ApiError(0, BROKEN_OFF);
  }
  throw new ApiError(0, BROKEN_OFF);
}
