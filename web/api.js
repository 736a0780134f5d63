// Talks to the server: its models, and answers as they are generated.

export class ApiError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

function headers(key) {
  const h = {'Content-Type': 'application/json'};
  if (key) h.Authorization = `Bearer ${key}`;
  return h;
}

async function errorOf(response) {
  let message = `the server answered ${response.status}`;
  try {
    message = (await response.json()).error.message;
  } catch {
    // No JSON: the status has to do.
  }
  return new ApiError(response.status, message);
}

export async function listModels(key) {
  const response = await fetch('/v1/models', {headers: headers(key)});
  if (!response.ok) throw await errorOf(response);
  return (await response.json()).data;
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

// Streams one answer: calls onText(delta) and returns {finish, usage, timings}. Throws ApiError, or
// AbortError when `signal` stops it.
export async function streamChat(body, key, signal, onText) {
  const response = await fetch('/v1/chat/completions', {
    method: 'POST',
    headers: headers(key),
    body: JSON.stringify({...body, stream: true, stream_options: {include_usage: true}, timings: true}),
    signal,
  });
  if (!response.ok) throw await errorOf(response);
  const result = {finish: null, usage: null, timings: null};
  for await (const {event, data} of events(response.body)) {
    if (data === '[DONE]') return result;
    const chunk = JSON.parse(data);
    if (event === 'error') throw new ApiError(chunk.error.code, chunk.error.message);
    if (chunk.usage) result.usage = chunk.usage;
    if (chunk.timings) result.timings = chunk.timings;
    const choice = chunk.choices[0];
    if (!choice) continue;
    if (choice.delta.content) onText(choice.delta.content);
    if (choice.finish_reason) result.finish = choice.finish_reason;
  }
  throw new ApiError(0, 'the connection ended in the middle of the answer');
}
