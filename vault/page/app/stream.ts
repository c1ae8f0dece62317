import { hooks, reach, session } from './session.ts'

const MAX_RECONNECT_MS = 10_000
/** Maximum silence of a stream before it counts as lost, in ms. The vault sends an event or a comment every 15 seconds. */
const MAX_SILENCE_MS = 40_000

/** The JSON data of an event. The event's type determines its shape. */
// biome-ignore lint/suspicious/noExplicitAny: the listener knows the shape by the type
type Data = any

export interface StreamListener {
  readonly onopen: () => void
  readonly onevent: (type: string, data: Data) => void
  readonly onlost: () => void
}

/**
 * Follows the vault's events while the page is open, and reconnects when the stream is lost. An `EventSource` cannot send the
 * authorization header, so the stream is read from a `fetch`.
 *
 * @param maxSilenceMs silence after which the stream counts as lost
 * @returns a function that ends it
 */
export function listen(
  { onopen, onevent, onlost }: StreamListener,
  maxSilenceMs = MAX_SILENCE_MS,
): () => void {
  const end = new AbortController()
  let waitMs = 500
  const run = async () => {
    while (!end.signal.aborted) {
      try {
        const response = await reach('/v1/vault/events', {
          headers: { authorization: `Bearer ${session.token}` },
          signal: end.signal,
        })
        if (response.status === 401) return hooks.signedOut()
        if (response.ok && response.body !== null) {
          waitMs = 500
          onopen()
          await read(response.body, onevent, maxSilenceMs)
        }
      } catch {
        // The connection was lost or has ended. The loop's condition determines whether to connect again.
      }
      if (end.signal.aborted) return
      onlost()
      await new Promise((go) => setTimeout(go, waitMs))
      waitMs = Math.min(waitMs * 2, MAX_RECONNECT_MS)
    }
  }
  void run()
  return () => end.abort()
}

/** Reads server-sent events as the vault writes them, with `event:` and one line of `data:`. */
async function read(
  body: ReadableStream<Uint8Array>,
  onevent: StreamListener['onevent'],
  maxSilenceMs: number,
): Promise<void> {
  const reader = body.getReader()
  const decoder = new TextDecoder()
  let rest = ''
  for (;;) {
    const silence = setTimeout(() => reader.cancel().catch(() => {}), maxSilenceMs)
    const { value, done } = await reader.read().finally(() => clearTimeout(silence))
    if (done) return
    const blocks = (rest + decoder.decode(value, { stream: true })).split('\n\n')
    rest = blocks.pop() ?? ''
    for (const block of blocks) {
      const type = /^event: (.+)$/m.exec(block)?.[1]
      const data = /^data: (.+)$/m.exec(block)?.[1]
      if (type !== undefined && data !== undefined) onevent(type, JSON.parse(data))
    }
  }
}
