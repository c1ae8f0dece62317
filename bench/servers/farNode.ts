import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'

/** A node as if it were far away, and what it was asked so far. */
export interface FarNode {
  readonly url: string
  /** HTTP requests and JSON-RPC calls; what a WebSocket carries is not counted. */
  asked(): { readonly requests: number; readonly calls: number }
  close(): void
}

/**
 * Stands in front of a node: bytes come out half a round trip after they went in, each way, in their order. It knows no
 * HTTP, so that nothing of it is a client's work but the waiting.
 */
export async function startFarNode(nodeUrl: string, roundTripMs: number): Promise<FarNode> {
  const { hostname, port } = new URL(nodeUrl)
  const counted = { requests: 0, calls: 0 }
  const sockets = new Set<Socket>()
  const pass = (from: Socket, to: Socket, seen?: (chunk: Buffer) => void) => {
    const late = (act: () => void) => (roundTripMs === 0 ? act() : void setTimeout(act, roundTripMs / 2))
    from.on('data', (chunk: Buffer) => {
      seen?.(chunk)
      late(() => void (to.writable && to.write(chunk)))
    })
    from.on('end', () => late(() => to.end()))
    from.on('error', () => to.destroy())
    from.on('close', () => sockets.delete(from))
    sockets.add(from)
  }
  const server = createServer({ noDelay: true, allowHalfOpen: true }, (client) => {
    const node = connect({ host: hostname, port: Number(port), noDelay: true, allowHalfOpen: true })
    pass(client, node, (chunk) => {
      const text = chunk.toString('latin1')
      counted.requests += text.split('POST /').length - 1
      counted.calls += text.split('"method":"').length - 1
    })
    pass(node, client)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    asked: () => ({ ...counted }),
    close() {
      server.close()
      for (const socket of sockets) socket.destroy()
    },
  }
}
