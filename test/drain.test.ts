import { once } from 'node:events'
import type { Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { defaultPlugins, startGateway } from './helpers/gateway.ts'
import { hasWholeAnswer, openSocket } from './helpers/rawHttp.ts'
import { sellerOf } from './helpers/sellerOf.ts'
import { createScriptedSettler } from './helpers/settler.ts'

const seller = await sellerOf(t, (_req, res) => void res.end('{}'))

async function start(drainTimeoutMs = 10_000) {
  const gateway = await startGateway(t, {
    plugins: defaultPlugins,
    settlers: [createScriptedSettler()],
    options: { drainTimeoutMs },
  })
  const free = await gateway.addLink({ slug: 'free', url: seller.url, price: '0' })
  const paid = await gateway.addLink({ slug: 'paid', url: seller.url, price: '0.10' })
  return { ...gateway, paths: [free.path, paid.path, '/api/link/demo/nothing'] }
}

const request = (path: string) => `GET ${path} HTTP/1.1\r\nHost: g\r\n\r\n`

/** Asks once, so that the connection is one that is kept. */
async function used(socket: Socket, path: string): Promise<Socket> {
  socket.write(request(path))
  let said = ''
  while (!hasWholeAnswer(said)) said += (await once(socket, 'data'))[0]
  return socket
}

/** All that a server says until it ends the connection. */
async function heard(socket: Socket): Promise<string> {
  let said = ''
  socket.on('data', (bytes: Buffer) => (said += bytes.toString('latin1')))
  await new Promise((resolve) => socket.once('close', resolve))
  return said
}

t.test(
  'what has arrived on a kept connection when a gateway stops is answered, and says that it was the last',
  async (t) => {
    const { paths, port, gateway } = await start()
    const asked = Array.from({ length: 24 }, (_, i) => paths[i % paths.length]!)
    const sockets = await Promise.all(asked.map(async (path) => used(await openSocket(t, port), path)))
    const answers = sockets.map(heard)
    // In the kernel's hands, and nobody has read it when the gateway is told to stop.
    for (const [i, socket] of sockets.entries()) socket.write(request(asked[i]!))
    const closed = gateway.close()
    for (const [i, answer] of answers.entries()) {
      const said = await answer
      t.match(said, asked[i] === paths[0] ? /^HTTP\/1.1 200 / : /^HTTP\/1.1 40[24] /)
      t.match(said, /\r\nConnection: close\r\n/i)
    }
    await closed
  },
)

t.test('so is who asks a moment later, and comes by a connection that is new', async (t) => {
  const { paths, port, gateway } = await start()
  const kept = await used(await openSocket(t, port), paths[1]!)
  const closed = gateway.close()
  await sleep(50)
  const fresh = await openSocket(t, port)
  const answers = [kept, fresh].map(heard)
  for (const socket of [kept, fresh]) socket.write(request(paths[1]!))
  for (const answer of answers) t.match(await answer, /^HTTP\/1.1 402 .*\r\nConnection: close\r\n/is)
  await closed
})

t.test(
  'a gateway on which nobody is connected stops at once, and idle callers hold it up for a moment only',
  async (t) => {
    const empty = await start()
    await empty.gateway.close()
    const { paths, port, gateway } = await start(60_000)
    const idle = await used(await openSocket(t, port), paths[0]!)
    const gone = once(idle, 'close')
    await gateway.close()
    await gone
    t.pass('long before the drain time')
  },
)
