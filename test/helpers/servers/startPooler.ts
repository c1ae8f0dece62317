import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import type { Test } from 'tap'

/** What a pooler does with what its clients begin a connection with. */
type Pooling = 'hands out one connection' | 'forgets settings'

/**
 * A pooler in front of PostgreSQL, as PgBouncer is one. `hands out one connection`: each question of each client is asked over one
 * connection of the server's, in turn, as in its `transaction` mode. `forgets settings`: each client has a connection of its own, and what
 * `ignore_startup_parameters` names is lost.
 *
 * @returns its URL
 */
export async function startPooler(
  t: Pick<Test, 'teardown'>,
  databaseUrl: string,
  pooling: Pooling,
): Promise<string> {
  const { hostname, port } = new URL(databaseUrl)
  const sockets = new Set<Socket>()
  const toServer = () => {
    const socket = connect(Number(port || 5432), hostname)
    sockets.add(socket.on('error', () => undefined))
    return socket
  }
  let shared: SharedConnection | undefined
  const pooler = createServer((client) => {
    sockets.add(client.on('error', () => undefined))
    client.once('data', (greeting: Buffer) => {
      if (pooling === 'hands out one connection') {
        shared ??= shareConnection(toServer(), greeting)
        shared.serve(client)
        return
      }
      const server = toServer()
      server.write(withoutSettings(greeting))
      client.pipe(server).pipe(client)
    })
  })
  pooler.listen(0, '127.0.0.1')
  await once(pooler, 'listening')
  t.teardown(() => {
    for (const socket of sockets) socket.destroy()
    pooler.close()
  })
  const url = new URL(databaseUrl)
  url.host = `127.0.0.1:${(pooler.address() as AddressInfo).port}`
  return url.href
}

/** The first message of a connection (length, version, then names and values), with nothing but who and where. */
function withoutSettings(greeting: Buffer): Buffer {
  const words = greeting.subarray(8, -2).toString().split('\0')
  const kept: string[] = []
  for (let i = 0; i < words.length; i += 2)
    if (words[i] === 'user' || words[i] === 'database') kept.push(words[i]!, words[i + 1]!)
  const text = Buffer.from(`${kept.join('\0')}\0\0`)
  const head = Buffer.alloc(8)
  head.writeInt32BE(8 + text.length, 0)
  greeting.copy(head, 4, 4, 8)
  return Buffer.concat([head, text])
}

interface SharedConnection {
  serve(client: Socket): void
}

function shareConnection(server: Socket, greeting: Buffer): SharedConnection {
  let line = exchange(server, greeting)
  const welcome = line
  return {
    serve(client) {
      void welcome.then((text) => client.write(text))
      client.on('data', (question: Buffer) => {
        // It continues without clients that leave.
        if (question[0] === TERMINATE) return
        line = line.then(() => exchange(server, question))
        void line.then((response) => client.write(response))
      })
    },
  }
}

/** Says something, and hears everything until the server is ready for the next. */
async function exchange(server: Socket, lines: Buffer): Promise<Buffer> {
  server.write(lines)
  let received = Buffer.alloc(0)
  while (received.at(-6) !== READY)
    received = Buffer.concat([received, ((await once(server, 'data')) as [Buffer])[0]])
  return received
}

const TERMINATE = 'X'.charCodeAt(0)
/** The type of the last message of an answer: a letter, four bytes of length and one of state. */
const READY = 'Z'.charCodeAt(0)
