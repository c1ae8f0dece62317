import { setTimeout as sleep } from 'node:timers/promises'
import type { Test } from 'tap'
import type { Leases } from '../../core/ports/store/leases.ts'
import type { Mailbox, Message } from '../../core/ports/store/mailbox.ts'
import { until } from '../helpers/rawHttp.ts'

export interface MailboxUnderTest {
  readonly mailbox: Mailbox
  readonly leases: Leases
}

/** What every implementation of the port Letters keeps. `make` gives the same store as two processes open it. */
export function mailboxContract(
  t: Test,
  make: (t: Test) => Promise<readonly [MailboxUnderTest, MailboxUnderTest]>,
): void {
  const bytes = (text: string) => Buffer.from(text)
  const text = ({ body }: Message) => Buffer.from(body).toString()
  const leased = async ({ leases }: MailboxUnderTest, name: string) => (await leases.take(name, 60_000))!.id

  t.test('a message is delivered once, only to the lease that it is for, with its sender', async (t) => {
    const [here, there] = await make(t)
    const [a, b, other] = [await leased(here, 'a'), await leased(there, 'b'), await leased(there, 'c')]
    const received: Message[] = []
    const wrong: Message[] = []
    t.teardown(there.mailbox.listen(b, (message) => void received.push(message)))
    t.teardown(there.mailbox.listen(other, (message) => void wrong.push(message)))
    const large = new Uint8Array(300_000).fill(0).map((_, i) => i % 251)
    await here.mailbox.post([
      { to: b, from: a, body: bytes('one') },
      { to: b, from: a, body: large },
      { to: b, from: a, body: new Uint8Array() },
    ])
    await until(async () => received.length === 3)
    t.match(received[0], { to: b, from: a })
    t.equal(text(received[0]!), 'one')
    t.equal(Buffer.compare(received[1]!.body, large), 0)
    t.equal(received[2]!.body.length, 0)
    await sleep(50)
    t.equal(received.length, 3)
    t.strictSame(wrong, [])
  })

  t.test('messages from before the listener are delivered, and none after the end', async (t) => {
    const [here, there] = await make(t)
    const [a, b] = [await leased(here, 'a'), await leased(there, 'b')]
    await here.mailbox.post([{ to: b, from: a, body: bytes('early') }])
    const received: string[] = []
    const end = there.mailbox.listen(b, (message) => void received.push(text(message)))
    await until(async () => received.length === 1)
    end()
    await here.mailbox.post([{ to: b, from: a, body: bytes('late') }])
    await sleep(50)
    t.strictSame(received, ['early'])
  })

  t.test('who begins to listen while another one hears a letter hears what came before', async (t) => {
    const [here, there] = await make(t)
    const [a, b, c] = [await leased(here, 'a'), await leased(there, 'b'), await leased(there, 'c')]
    const received: string[] = []
    await here.mailbox.post([{ to: c, from: a, body: bytes('for c') }])
    const listenToo = () =>
      t.teardown(there.mailbox.listen(c, (message) => void received.push(text(message))))
    t.teardown(there.mailbox.listen(b, listenToo))
    await here.mailbox.post([{ to: b, from: a, body: bytes('for b') }])
    await until(async () => received.length === 1)
    t.strictSame(received, ['for c'])
  })

  t.test('letters of many at once come each once, those of one sender in their order', async (t) => {
    const [here, there] = await make(t)
    const [a, b, c] = [await leased(here, 'a'), await leased(there, 'b'), await leased(there, 'c')]
    const received: string[] = []
    // A listener that fails does not keep the next letter from being heard.
    const hear = (message: Message) => {
      received.push(`${message.from} ${text(message)}`)
      if (received.length === 10) throw new Error('this listener cannot handle it')
    }
    t.teardown(there.mailbox.listen(c, hear))
    const posts: Promise<void>[] = []
    for (let i = 0; i < 300; i++) {
      posts.push(here.mailbox.post([{ to: c, from: a, body: bytes(String(i)) }]))
      posts.push(there.mailbox.post([{ to: c, from: b, body: bytes(String(i)) }]))
    }
    await Promise.all(posts)
    await until(async () => received.length >= 600)
    await sleep(50)
    t.equal(received.length, 600)
    const inOrder = (from: number) => Array.from({ length: 300 }, (_, i) => `${from} ${i}`)
    for (const from of [a, b])
      t.strictSame(
        received.filter((one) => one.startsWith(`${from} `)),
        inOrder(from),
      )
  })

  t.test('two processes answer each other soon', async (t) => {
    const [here, there] = await make(t)
    const [a, b] = [await leased(here, 'a'), await leased(there, 'b')]
    let rounds = 0
    const done = Promise.withResolvers<void>()
    t.teardown(
      there.mailbox.listen(b, ({ from, body }) => void there.mailbox.post([{ to: from, from: b, body }])),
    )
    t.teardown(
      here.mailbox.listen(a, ({ body }) => {
        if (++rounds === 20) done.resolve()
        else void here.mailbox.post([{ to: b, from: a, body }])
      }),
    )
    await here.mailbox.post([{ to: b, from: a, body: bytes('go') }])
    await done.promise
    t.equal(rounds, 20)
  })
}
