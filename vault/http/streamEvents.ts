import type { IncomingMessage, ServerResponse } from 'node:http'
import type { VaultEvent } from '../host/bus.ts'
import type { OwnerContext } from '../host/caller.ts'
import type { VaultApi } from '../host/vaultApi.ts'

const HEARTBEAT_MS = 15_000
/** A page that is quick enough gets all that one agent may have open at once. */
const MOST_BUFFERED_BYTES = 1_048_576

/**
 * `GET /v1/vault/events`: what happens, as server-sent events. Whoever reads too slowly is let go; a stream whose credential
 * ended is closed at once where that is an agent's token, and otherwise before anything more is said.
 */
export function streamEvents(
  api: VaultApi,
  context: OwnerContext,
  isStillValid: () => boolean,
  req: IncomingMessage,
  res: ServerResponse,
): void {
  const stop = api.watch(context, (event) => {
    write(`event: ${event.type}\ndata: ${JSON.stringify(dataOf(event))}\n\n`)
  })
  const { caller } = context
  const stopToken =
    caller.kind === 'agent'
      ? api.registry.onTokenEnd((id) => {
          if (id === caller.agent.id) res.destroy()
        })
      : undefined
  const heartbeat = setInterval(() => write(':\n\n'), HEARTBEAT_MS)
  heartbeat.unref()
  res.once('close', () => {
    clearInterval(heartbeat)
    stop()
    stopToken?.()
  })
  req.resume()
  res.writeHead(200, {
    'content-type': 'text/event-stream; charset=utf-8',
    'cache-control': 'no-store',
    'x-content-type-options': 'nosniff',
    'x-request-id': context.requestId,
  })
  res.flushHeaders()

  function write(text: string): void {
    if (res.writableLength > MOST_BUFFERED_BYTES || !isStillValid()) res.destroy()
    else res.write(text)
  }
}

function dataOf(event: VaultEvent): object {
  if (event.type === 'approval') return event.approval
  if (event.type === 'locked') return { reason: event.reason }
  return event.type === 'notice' ? { text: event.text } : {}
}
