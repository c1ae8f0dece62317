import { hooks, reach, session } from './session.js'

const longestWaitMs = 10_000
/** The vault says something every 15 seconds; a line on which nothing comes for this long is lost. */
const longestSilenceMs = 40_000

/**
 * Hears what happens in the vault for as long as the page is open, and connects again when the line is lost. An
 * `EventSource` can not send the session, so the stream is read from a request.
 *
 * @param {{ onopen: () => void, onevent: (type: string, data: any) => void, onlost: () => void }} listener
 * @param {number} [silentMs] after so much silence the line is lost
 * @returns {() => void} ends it
 */
export function listen({ onopen, onevent, onlost }, silentMs = longestSilenceMs) {
  const end = new AbortController()
  let waitMs = 500
  const run = async () => {
    while (!end.signal.aborted) {
      try {
        const answer = await reach('/v1/vault/events', {
          headers: { authorization: `Bearer ${session.token}` },
          signal: end.signal,
        })
        if (answer.status === 401) return hooks.signedOut()
        if (answer.ok && answer.body !== null) {
          waitMs = 500
          onopen()
          await read(answer.body, onevent, silentMs)
        }
      } catch {
        // Lost, or ended; the loop's condition knows.
      }
      if (end.signal.aborted) return
      onlost()
      await new Promise((go) => setTimeout(go, waitMs))
      waitMs = Math.min(waitMs * 2, longestWaitMs)
    }
  }
  void run()
  return () => end.abort()
}

/**
 * Server-sent events as the vault writes them: `event:` and one line of `data:`.
 *
 * @param {ReadableStream<Uint8Array>} body @param {(type: string, data: any) => void} onevent @param {number} silentMs
 */
async function read(body, onevent, silentMs) {
  const reader = body.pipeThrough(/** @type {any} */ (new TextDecoderStream())).getReader()
  let rest = ''
  for (;;) {
    const silence = setTimeout(() => reader.cancel().catch(() => {}), silentMs)
    const { value, done } = await reader.read().finally(() => clearTimeout(silence))
    if (done) return
    const blocks = (rest + value).split('\n\n')
    rest = blocks.pop() ?? ''
    for (const block of blocks) {
      const type = /^event: (.+)$/m.exec(block)?.[1]
      const data = /^data: (.+)$/m.exec(block)?.[1]
      if (type !== undefined && data !== undefined) onevent(type, JSON.parse(data))
    }
  }
}
