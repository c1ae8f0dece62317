import { setTimeout as sleep } from 'node:timers/promises'
import type { Test } from 'tap'
import type { Leases } from '../../core/ports/store/leases.ts'
import type { Letter, Letters } from '../../core/ports/store/letters.ts'
import { until } from '../helpers/rawHttp.ts'

export interface LettersUnderTest {
  readonly letters: Letters
  readonly leases: Leases
}

/** What every implementation of the port Letters keeps. `make` gives the same store as two processes open it. */
export function lettersContract(
  t: Test,
  make: (t: Test) => Promise<readonly [LettersUnderTest, LettersUnderTest]>,
): void {
  const bytes = (text: string) => Buffer.from(text)
  const text = ({ body }: Letter) => Buffer.from(body).toString()
  const leased = async ({ leases }: LettersUnderTest, name: string) => (await leases.take(name, 60_000))!.id

  t.test('a letter is heard by the lease it is for, by nobody else, once, with its sender', async (t) => {
    const [here, there] = await make(t)
    const [a, b, other] = [await leased(here, 'a'), await leased(there, 'b'), await leased(there, 'c')]
    const heard: Letter[] = []
    const wrong: Letter[] = []
    t.teardown(there.letters.listen(b, (letter) => void heard.push(letter)))
    t.teardown(there.letters.listen(other, (letter) => void wrong.push(letter)))
    const large = new Uint8Array(300_000).fill(0).map((_, i) => i % 251)
    await here.letters.post([
      { to: b, from: a, body: bytes('one') },
      { to: b, from: a, body: large },
      { to: b, from: a, body: new Uint8Array() },
    ])
    await until(async () => heard.length === 3)
    t.match(heard[0], { to: b, from: a })
    t.equal(text(heard[0]!), 'one')
    t.equal(Buffer.compare(heard[1]!.body, large), 0)
    t.equal(heard[2]!.body.length, 0)
    await sleep(50)
    t.equal(heard.length, 3)
    t.strictSame(wrong, [])
  })

  t.test('what came before somebody listened is heard, and nothing after the end', async (t) => {
    const [here, there] = await make(t)
    const [a, b] = [await leased(here, 'a'), await leased(there, 'b')]
    await here.letters.post([{ to: b, from: a, body: bytes('early') }])
    const heard: string[] = []
    const end = there.letters.listen(b, (letter) => void heard.push(text(letter)))
    await until(async () => heard.length === 1)
    end()
    await here.letters.post([{ to: b, from: a, body: bytes('late') }])
    await sleep(50)
    t.strictSame(heard, ['early'])
  })

  t.test('who begins to listen while another one hears a letter hears what came before', async (t) => {
    const [here, there] = await make(t)
    const [a, b, c] = [await leased(here, 'a'), await leased(there, 'b'), await leased(there, 'c')]
    const heard: string[] = []
    await here.letters.post([{ to: c, from: a, body: bytes('for c') }])
    const listenToo = () => t.teardown(there.letters.listen(c, (letter) => void heard.push(text(letter))))
    t.teardown(there.letters.listen(b, listenToo))
    await here.letters.post([{ to: b, from: a, body: bytes('for b') }])
    await until(async () => heard.length === 1)
    t.strictSame(heard, ['for c'])
  })

  t.test('letters of many at once come each once, those of one sender in their order', async (t) => {
    const [here, there] = await make(t)
    const [a, b, c] = [await leased(here, 'a'), await leased(there, 'b'), await leased(there, 'c')]
    const heard: string[] = []
    // A listener that fails does not keep the next letter from being heard.
    const hear = (letter: Letter) => {
      heard.push(`${letter.from} ${text(letter)}`)
      if (heard.length === 10) throw new Error('this one can not take it')
    }
    t.teardown(there.letters.listen(c, hear))
    const posts: Promise<void>[] = []
    for (let i = 0; i < 300; i++) {
      posts.push(here.letters.post([{ to: c, from: a, body: bytes(String(i)) }]))
      posts.push(there.letters.post([{ to: c, from: b, body: bytes(String(i)) }]))
    }
    await Promise.all(posts)
    await until(async () => heard.length >= 600)
    await sleep(50)
    t.equal(heard.length, 600)
    const inOrder = (from: number) => Array.from({ length: 300 }, (_, i) => `${from} ${i}`)
    for (const from of [a, b])
      t.strictSame(
        heard.filter((one) => one.startsWith(`${from} `)),
        inOrder(from),
      )
  })

  t.test('two processes answer each other soon', async (t) => {
    const [here, there] = await make(t)
    const [a, b] = [await leased(here, 'a'), await leased(there, 'b')]
    let rounds = 0
    const done = Promise.withResolvers<void>()
    t.teardown(
      there.letters.listen(b, ({ from, body }) => void there.letters.post([{ to: from, from: b, body }])),
    )
    t.teardown(
      here.letters.listen(a, ({ body }) => {
        if (++rounds === 20) done.resolve()
        else void here.letters.post([{ to: b, from: a, body }])
      }),
    )
    await here.letters.post([{ to: b, from: a, body: bytes('go') }])
    await done.promise
    t.equal(rounds, 20)
  })
}
