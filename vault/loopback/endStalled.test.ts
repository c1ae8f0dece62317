import { once } from 'node:events'
import { createServer } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { setTimeout as wait } from 'node:timers/promises'
import t from 'tap'
import { endStalled } from './callers.ts'

t.test('who asks and does not read is let go, who waits for an answer is not', async (t) => {
  const large = Buffer.alloc(16_777_216)
  const server = createServer(async (req, res) => {
    if (req.url === '/late') await wait(1_500)
    res.end(req.url === '/large' ? large : 'here')
  })
  endStalled(server, 1_000)
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  const { port } = server.address() as AddressInfo
  const late = fetch(`http://127.0.0.1:${port}/late`).then((response) => response.text())
  const unread = connect(port, '127.0.0.1')
  t.teardown(() => unread.destroy())
  const [[held]] = await Promise.all([
    once(server, 'connection'),
    once(unread, 'connect').then(() => unread.pause().write('GET /large HTTP/1.1\r\nHost: a\r\n\r\n')),
  ])
  await new Promise((resolve) => (held.destroyed ? resolve(undefined) : held.once('close', resolve)))
  t.equal(await late, 'here')
  const whole = await fetch(`http://127.0.0.1:${port}/large`)
  t.equal((await whole.arrayBuffer()).byteLength, large.length)
})
