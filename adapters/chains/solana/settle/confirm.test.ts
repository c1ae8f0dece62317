import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import t from 'tap'
import { WebSocketServer } from 'ws'
import { silentLog } from '../../../../core/ports/log.ts'
import { RpcUnreachable } from '../../../../core/rpc/rpcError.ts'
import { type ConfirmerOptions, createConfirmer, type SignatureStatus } from './confirm.ts'

const done: SignatureStatus = { slot: 1, err: null, confirmationStatus: 'confirmed' }
/** Node warns of each kind once in a process, so they are heard from the first test on. */
const warnings: string[] = []
process.on('warning', ({ name, message }) => warnings.push(`${name}: ${message}`))
const timers = () => process.getActiveResourcesInfo().filter((kind) => kind === 'Timeout').length

/** A node that keeps every question until it is answered, or answers by `answer`. */
function setUp(options: Partial<ConfirmerOptions> = {}) {
  const asked: (readonly string[])[] = []
  const landed = new Set<string>()
  let answer = async (signatures: readonly string[]) =>
    signatures.map((signature) => (landed.has(signature) ? done : null))
  const confirmer = createConfirmer({
    rpc: {
      call: async <T>(method: string, ...params: unknown[]) => {
        if (method !== 'getSignatureStatuses') throw new Error(`unexpected ${method}`)
        const signatures = params[0] as string[]
        asked.push(signatures)
        return { context: { slot: 1 }, value: await answer(signatures) } as T
      },
    },
    commitment: 'confirmed',
    firstPollMs: 1,
    pollMs: 20,
    pollMsWithSocket: 20,
    log: silentLog,
    ...options,
  })
  t.teardown(() => confirmer.close())
  return {
    confirmer,
    asked,
    landed,
    answerBy(next: typeof answer) {
      answer = next
    },
  }
}

/** Most rounds in this time: the early ones, which double from 1 ms, and then one every 20 ms. */
const mostRounds = (elapsedMs: number) => 6 + elapsedMs / 20

t.test('while nothing lands rounds thin out to pollMs, and with the last waiter they end', async (t) => {
  const { confirmer, asked } = setUp()
  const timersBefore = timers()
  const sinceMs = performance.now()
  t.equal(await confirmer.wait('lost', 300), undefined)
  const elapsedMs = performance.now() - sinceMs
  t.ok(asked.length >= 1 && asked.length <= mostRounds(elapsedMs), `${asked.length} in ${elapsedMs} ms`)
  t.ok(asked.every((signatures) => signatures.length === 1))
  t.equal(timers(), timersBefore, 'no timer is left')
})

t.test('a wait that ends while a question is under way leaves no timer and asks for nobody', async (t) => {
  const { confirmer, asked, answerBy } = setUp()
  const timersBefore = timers()
  const answers = Promise.withResolvers<null[]>()
  const isAsked = Promise.withResolvers<void>()
  answerBy(() => {
    isAsked.resolve()
    return answers.promise
  })
  const waiting = confirmer.wait('given up', 60_000)
  await isAsked.promise
  confirmer.giveUp('given up')
  t.equal(await waiting, undefined)
  answers.resolve([null])
  await new Promise(setImmediate)
  t.equal(timers(), timersBefore)
  t.ok(asked.every((signatures) => signatures.length > 0))
})

t.test('however many wait, a round is one question per 256 of them', async (t) => {
  const { confirmer, asked, landed } = setUp({ firstPollMs: 10 })
  const all = Array.from({ length: 600 }, (_, i) => `signature ${i}`)
  for (const signature of all) landed.add(signature)
  const sinceMs = performance.now()
  const found = await Promise.all(all.map((signature) => confirmer.wait(signature, 60_000)))
  const rounds = 1 + (performance.now() - sinceMs) / 10
  t.ok(found.every((confirmation) => confirmation?.err === null))
  t.ok(asked.length <= 3 * rounds, `${asked.length} questions`)
  t.ok(asked.every(({ length }) => length > 0 && length <= 256))
})

t.test('a node that keeps a question waiting holds up nobody who comes later', async (t) => {
  const { confirmer, asked, landed, answerBy } = setUp()
  const isAsked = Promise.withResolvers<void>()
  answerBy(async (signatures) => {
    isAsked.resolve()
    if (asked.length === 1) await new Promise(() => {})
    return signatures.map((signature) => (landed.has(signature) ? done : null))
  })
  const first = confirmer.wait('first', 60_000)
  await isAsked.promise
  landed.add('first').add('second')
  t.match(await confirmer.wait('second', 60_000), { err: null })
  t.match(await first, { err: null })
  t.equal(asked.length, 2)
})

t.test('while an answer is on its way, its payments are not asked about again, and others are', async (t) => {
  const { confirmer, asked, landed, answerBy } = setUp({ pollMs: 60_000 })
  const answers = Promise.withResolvers<null[]>()
  const isAsked = Promise.withResolvers<void>()
  answerBy(async (signatures) => {
    isAsked.resolve()
    if (asked.length === 1) return answers.promise
    return signatures.map((signature) => (landed.has(signature) ? done : null))
  })
  const first = confirmer.wait('first', 60_000)
  await isAsked.promise
  await new Promise((resolve) => setTimeout(resolve, 50))
  t.equal(asked.length, 1)
  landed.add('second')
  t.match(await confirmer.wait('second', 60_000), { err: null })
  landed.add('first')
  answers.resolve([null])
  t.match(await first, { err: null })
})

t.test('however many never landed, the next one is looked for before its wait is over', async (t) => {
  const { confirmer, landed } = setUp({ pollMs: 60_000 })
  await Promise.all(Array.from({ length: 16 }, (_, i) => confirmer.wait(`lost ${i}`, 400)))
  landed.add('good')
  t.match(await confirmer.wait('good', 400), { err: null })
})

t.test('a node that fails is asked no more often than one that answers', async (t) => {
  const { confirmer, asked, answerBy } = setUp()
  answerBy(() => Promise.reject(new RpcUnreachable('gone')))
  const sinceMs = performance.now()
  t.equal(await confirmer.wait('lost', 200), undefined)
  t.ok(asked.length <= mostRounds(performance.now() - sinceMs), `${asked.length} questions`)
})

t.test(
  'two who wait for one signature hear the same, and a closed confirmer waits for nothing',
  async (t) => {
    const { confirmer, landed } = setUp()
    const both = [confirmer.wait('one', 60_000), confirmer.wait('one', 60_000)]
    landed.add('one')
    t.match(await Promise.all(both), [{ err: null }, { err: null }])
    const open = confirmer.wait('two', 60_000)
    confirmer.close()
    t.equal(await open, undefined)
    t.equal(await confirmer.wait('three', 60_000), undefined)
  },
)

t.test(
  'a process that was busy when a question was due asks at once, without a warning of node',
  async (t) => {
    const { confirmer, landed } = setUp()
    landed.add('first').add('second')
    const first = confirmer.wait('first', 60_000)
    const busyUntilMs = performance.now() + 30
    while (performance.now() < busyUntilMs);
    t.match(await Promise.all([first, confirmer.wait('second', 60_000)]), [{ err: null }, { err: null }])
    await new Promise(setImmediate)
    t.same(warnings, [])
  },
)

t.test('that a transaction failed is believed only when it is asked for, not when it is told', async (t) => {
  const node = new WebSocketServer({ port: 0, host: '127.0.0.1' })
  await once(node, 'listening')
  const told = new Set<string>()
  node.on('connection', (peer) =>
    peer.on('message', (data) => {
      const { id, method, params } = JSON.parse(String(data))
      if (method !== 'signatureSubscribe') return
      told.add(params[0])
      const result = { value: { err: 'AccountInUse' } }
      peer.send(JSON.stringify({ id, result: id }))
      peer.send(JSON.stringify({ method: 'signatureNotification', params: { subscription: id, result } }))
    }),
  )
  t.teardown(() => {
    for (const peer of node.clients) peer.terminate()
    node.close()
  })
  const wsUrl = `ws://127.0.0.1:${(node.address() as AddressInfo).port}`
  const { confirmer, answerBy } = setUp({ wsUrl })
  const failed = { InstructionError: [2, 'Custom'] }
  answerBy(async (signatures) =>
    signatures.map((one) => (told.has(one) ? { ...done, err: one === 'bad' ? failed : null } : null)),
  )
  t.match(await confirmer.wait('good', 60_000), { err: null })
  t.match(await confirmer.wait('bad', 60_000), { err: failed })
})
