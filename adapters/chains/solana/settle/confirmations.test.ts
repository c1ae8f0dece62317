import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import t from 'tap'
import { WebSocketServer } from 'ws'
import { silentLog } from '../../../../core/ports/log.ts'
import { RpcUnreachable } from '../../../../core/rpc/post.ts'
import { Confirmer, type ConfirmerOptions, type SignatureStatus } from './confirmations.ts'

const done: SignatureStatus = { slot: 1, err: null, confirmationStatus: 'confirmed' }
/** Node warns of each kind once per process, so warnings are collected from the first test on. */
const warnings: string[] = []
process.on('warning', ({ name, message }) => warnings.push(`${name}: ${message}`))
const timers = () => process.getActiveResourcesInfo().filter((kind) => kind === 'Timeout').length

/** A node that keeps every request until the test responds, or responds by `answer`. */
function setUp(options: Partial<ConfirmerOptions> = {}) {
  const requests: (readonly string[])[] = []
  const landed = new Set<string>()
  let respond = async (signatures: readonly string[]) =>
    signatures.map((signature) => (landed.has(signature) ? done : null))
  const confirmer = new Confirmer({
    rpc: {
      call: async <T>(method: string, ...params: unknown[]) => {
        if (method !== 'getSignatureStatuses') throw new Error(`unexpected ${method}`)
        const signatures = params[0] as string[]
        requests.push(signatures)
        return { context: { slot: 1 }, value: await respond(signatures) } as T
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
    requests,
    landed,
    answerBy(next: typeof respond) {
      respond = next
    },
  }
}

/** Most rounds in this time. The early pauses double from 1 ms, and later there is one round every 20 ms. */
const maxRounds = (elapsedMs: number) => 6 + elapsedMs / 20

t.test('while nothing lands rounds thin out to pollMs, and with the last waiter they end', async (t) => {
  const { confirmer, requests } = setUp()
  const timersBefore = timers()
  const sinceMs = performance.now()
  t.equal(await confirmer.wait('lost', 300), undefined)
  const elapsedMs = performance.now() - sinceMs
  t.ok(
    requests.length >= 1 && requests.length <= maxRounds(elapsedMs),
    `${requests.length} in ${elapsedMs} ms`,
  )
  t.ok(requests.every((signatures) => signatures.length === 1))
  t.equal(timers(), timersBefore, 'no timer is left')
})

t.test('a wait that ends while a question is under way leaves no timer and asks for nobody', async (t) => {
  const { confirmer, requests, answerBy } = setUp()
  const timersBefore = timers()
  const responses = Promise.withResolvers<null[]>()
  const isAsked = Promise.withResolvers<void>()
  answerBy(() => {
    isAsked.resolve()
    return responses.promise
  })
  const waiting = confirmer.wait('given up', 60_000)
  await isAsked.promise
  confirmer.giveUp('given up')
  t.equal(await waiting, undefined)
  responses.resolve([null])
  await new Promise(setImmediate)
  t.equal(timers(), timersBefore)
  t.ok(requests.every((signatures) => signatures.length > 0))
})

t.test('however many wait, a round is one question per 256 of them', async (t) => {
  const { confirmer, requests, landed } = setUp({ firstPollMs: 10 })
  const all = Array.from({ length: 600 }, (_, i) => `signature ${i}`)
  for (const signature of all) landed.add(signature)
  const sinceMs = performance.now()
  const found = await Promise.all(all.map((signature) => confirmer.wait(signature, 60_000)))
  const rounds = 1 + (performance.now() - sinceMs) / 10
  t.ok(found.every((confirmation) => confirmation?.err === null))
  t.ok(requests.length <= 3 * rounds, `${requests.length} questions`)
  t.ok(requests.every(({ length }) => length > 0 && length <= 256))
})

t.test('a node that keeps a question waiting holds up nobody who comes later', async (t) => {
  const { confirmer, requests, landed, answerBy } = setUp()
  const isAsked = Promise.withResolvers<void>()
  answerBy(async (signatures) => {
    isAsked.resolve()
    if (requests.length === 1) await new Promise(() => {})
    return signatures.map((signature) => (landed.has(signature) ? done : null))
  })
  const first = confirmer.wait('first', 60_000)
  await isAsked.promise
  landed.add('first').add('second')
  t.match(await confirmer.wait('second', 60_000), { err: null })
  t.match(await first, { err: null })
  t.equal(requests.length, 2)
})

t.test('while an answer is on its way, its payments are not asked about again, and others are', async (t) => {
  const { confirmer, requests, landed, answerBy } = setUp({ pollMs: 60_000 })
  const responses = Promise.withResolvers<null[]>()
  const isAsked = Promise.withResolvers<void>()
  answerBy(async (signatures) => {
    isAsked.resolve()
    if (requests.length === 1) return responses.promise
    return signatures.map((signature) => (landed.has(signature) ? done : null))
  })
  const first = confirmer.wait('first', 60_000)
  await isAsked.promise
  await new Promise((resolve) => setTimeout(resolve, 50))
  t.equal(requests.length, 1)
  landed.add('second')
  t.match(await confirmer.wait('second', 60_000), { err: null })
  landed.add('first')
  responses.resolve([null])
  t.match(await first, { err: null })
})

t.test('however many never landed, the next one is looked for before its wait is over', async (t) => {
  const { confirmer, landed } = setUp({ pollMs: 60_000 })
  await Promise.all(Array.from({ length: 16 }, (_, i) => confirmer.wait(`lost ${i}`, 400)))
  landed.add('good')
  t.match(await confirmer.wait('good', 400), { err: null })
})

t.test('a node that fails is asked no more often than one that answers', async (t) => {
  const { confirmer, requests, answerBy } = setUp()
  answerBy(() => Promise.reject(new RpcUnreachable('gone')))
  const sinceMs = performance.now()
  t.equal(await confirmer.wait('lost', 200), undefined)
  t.ok(requests.length <= maxRounds(performance.now() - sinceMs), `${requests.length} questions`)
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
  const notified = new Set<string>()
  node.on('connection', (peer) =>
    peer.on('message', (data) => {
      const { id, method, params } = JSON.parse(String(data))
      if (method !== 'signatureSubscribe') return
      notified.add(params[0])
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
    signatures.map((one) => (notified.has(one) ? { ...done, err: one === 'bad' ? failed : null } : null)),
  )
  t.match(await confirmer.wait('good', 60_000), { err: null })
  t.match(await confirmer.wait('bad', 60_000), { err: failed })
})
