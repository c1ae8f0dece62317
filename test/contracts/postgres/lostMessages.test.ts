import net from 'node:net'
import t, { type Test } from 'tap'
import { databaseUrl, makePostgres, whySkipped } from './testPostgres.ts'

const skip = (await whySkipped()) ?? false

/** Bytes as the server writes them. */
const asSent = Buffer.from('a letter').toString('hex')

/** A way to the server that ends when the first answer comes to a look for letters: the server has done what it was asked. */
async function startProxy(t: Test) {
  const server = new URL(databaseUrl)
  let left = 0
  const proxy = net.createServer((near) => {
    const far = net.connect(Number(server.port || 5432), server.hostname)
    let isPoll = false
    const end = () => {
      near.destroy()
      far.destroy()
    }
    near.on('data', (data) => {
      isPoll ||= data.includes('FROM messages WHERE')
      far.write(data)
    })
    far.on('data', (data) => {
      // Only an answer that has a letter in it.
      if (!isPoll || left === 0 || !data.includes(asSent)) return near.write(data)
      left--
      return end()
    })
    for (const one of [near, far]) one.on('error', end).on('close', end)
  })
  await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve))
  t.teardown(() => proxy.close())
  const url = new URL(databaseUrl)
  url.hostname = '127.0.0.1'
  url.port = String((proxy.address() as net.AddressInfo).port)
  return { url: url.href, cut: (times: number) => void (left = times), left: () => left }
}

t.test('a letter whose reading was cut off is heard all the same, and once', { skip }, async (t) => {
  const proxy = await startProxy(t)
  const here = await makePostgres(t)
  const there = await makePostgres(t, { schema: here.schema, url: proxy.url })
  const received: string[] = []
  let onAll = () => {}
  const all = new Promise<void>((resolve) => {
    onAll = resolve
  })
  const end = there.mailbox.listen(7, ({ body }) => {
    received.push(Buffer.from(body).toString())
    if (received.includes('a letter: the last')) onAll()
  })
  t.teardown(end)
  proxy.cut(2)
  for (const n of ['the first', 'the second', 'the last'])
    await here.mailbox.post([{ to: 7, from: 1, body: Buffer.from(`a letter: ${n}`) }])
  await all
  t.equal(proxy.left(), 0, 'answers were lost')
  t.strictSame(received, ['a letter: the first', 'a letter: the second', 'a letter: the last'])
})
