import type { IncomingMessage, ServerResponse } from 'node:http'
import type { VaultEvent } from '../host/bus.ts'
import type { OwnerContext } from '../host/caller.ts'
import type { VaultApi } from '../host/createVaultApi.ts'

const HEARTBEAT_MS = 15_000
/** Maximum buffered bytes per stream. They are enough for everything that a single agent may have open. */
const MAX_BUFFERED_BYTES = 1_048_576

/**
 * `GET /v1/vault/events`: the vault's events as server-sent events. A client that reads too slowly is disconnected. When an
 * agent's token ends, its stream is closed at once. When another credential ends, its stream is closed before the next event.
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
    if (res.writableLength > MAX_BUFFERED_BYTES || !isStillValid()) res.destroy()
    else res.write(text)
  }
}

function dataOf(event: VaultEvent): object {
  if (event.type === 'approval') return event.approval
  if (event.type === 'locked') return { reason: event.reason }
  return event.type === 'notice' ? { text: event.text } : {}
}
