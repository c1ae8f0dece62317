import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { type AddressInfo, createServer as createTcpServer, type Socket } from 'node:net'
import type { Test } from 'tap'

/** A seller whose answer the test writes itself. */
export interface OwnSeller {
  readonly url: string
  /** How many requests came. */
  readonly calls: number
  readonly connections: ReadonlySet<Socket>
}

/** Starts a seller that answers each request by `answer`; its body is the handler's to read. */
export async function sellerOf(
  t: Test,
  respond: (req: IncomingMessage, res: ServerResponse) => void,
): Promise<OwnSeller> {
  let calls = 0
  const server = createServer((req, res) => {
    calls++
    respond(req, res)
  })
  return serve(t, server, () => calls)
}

/** Starts a seller that writes these bytes to every request head, as they are; `end` closes behind them. */
export async function rawSeller(t: Test, bytes: string | Buffer, end = false): Promise<OwnSeller> {
  let calls = 0
  const server = createTcpServer((socket) => {
    let text = ''
    socket.on('data', (chunk: Buffer) => {
      text += chunk.toString('latin1')
      if (!text.includes('\r\n\r\n')) return
      text = ''
      calls++
      socket.write(typeof bytes === 'string' ? Buffer.from(bytes, 'latin1') : bytes)
      if (end) socket.end()
    })
  })
  return serve(t, server, () => calls)
}

async function serve(
  t: Test,
  server: ReturnType<typeof createServer> | ReturnType<typeof createTcpServer>,
  calls: () => number,
): Promise<OwnSeller> {
  const connections = new Set<Socket>()
  server.on('connection', (socket: Socket) => {
    connections.add(socket)
    socket.on('close', () => connections.delete(socket))
    socket.on('error', () => {})
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(async () => {
    server.close()
    for (const socket of connections) socket.destroy()
    await once(server, 'close')
  })
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    connections,
    get calls() {
      return calls()
    },
  }
}
