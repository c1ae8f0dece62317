import { setTimeout as sleep } from 'node:timers/promises'
import type { PaymentRequired } from '@x402/core/types'
import { type Answer, get } from './client.ts'
import type { SoakOptions } from './options.ts'
import { newPayer } from './payers.ts'
import type { Gateway, World } from './world.ts'

/** A buyer waits so long for an answer before he comes back with the same payment. Common clients wait 15 s. */
const ANSWER_MS = 15_000
/** Before a buyer comes back; twice as long each time, as good clients do. */
const RETRY_MS = 250
const MAX_RETRY_MS = 2_000
/**
 * Calls under way at most, as seconds of the rate. More would only wait for the processor, and coming back again and again they
 * take from the gateways what these would need to start again.
 */
const MAX_OPEN_S = 4
/**
 * After the load has ended, a buyer gives up after this: longer than a payment is good for (300 s), because one whose transaction shared
 * its bytes with a call that died unsaid is open until then, and uncharged.
 */
const PATIENCE_MS = 330_000
const BUYERS = 8
const FREE_MS = 100

/** What one presented payment heard, or that nothing was heard. */
export interface LoadResponse {
  readonly gateway: string
  readonly callBeganMs: number
  readonly atMs: number
  readonly tookMs: number
  /** The status and the error's code: `503 store_unavailable`; what happened to the connection where nothing was heard. */
  readonly response: string
}

/** One paid call, from its first presentation to the answer that is final. */
export interface PaidCall {
  readonly n: number
  readonly beganMs: number
  endedMs: number | undefined
  /** When a gateway was killed or stopped that had this payment, or after that another one: who was to answer it is gone, too. */
  struckMs: number | undefined
  /** Where it is presented now. */
  at: Gateway | undefined
  final: Answer | undefined
}

export interface Load {
  readonly calls: readonly PaidCall[]
  readonly received: readonly LoadResponse[]
  readonly freeResponses: readonly LoadResponse[]
  /** Begins the steady calls. */
  begin(): void
  /** Marks what is on its way at a gateway: it is struck now. */
  struck(gateway: Gateway): void
  /** Presents a payment of its own at one gateway until it is served. @returns when the presentation began that was */
  servedAt(gateway: Gateway, patienceMs: number): Promise<{ beganMs: number; answeredMs: number } | undefined>
  /** Signs a payment and presents it at all gateways at once, so often in sum. */
  presentAtOnce(times: number): Promise<{ target: string; responses: readonly Answer[] }>
  /** Begins no more calls, and waits for those under way. */
  end(): Promise<void>
}

/** Buyers, and from `begin` on paid calls at a steady rate, with free ones at each gateway beside them. */
export async function prepareLoad(world: World, options: SoakOptions, random: () => number): Promise<Load> {
  const { gateways, paidOn } = world
  const offer = (await get(gateways[0]!.url + world.paid, {}, ANSWER_MS)).body as unknown as PaymentRequired
  const offers = paidOn.map(({ network }) => ({
    ...offer,
    accepts: offer.accepts.filter((entry) => entry.network === network),
  }))
  const payers = await Promise.all(
    Array.from({ length: BUYERS * paidOn.length }, (_, i) =>
      newPayer(world.chains, paidOn[i % paidOn.length]!),
    ),
  )
  const sign = (n: number) => payers[n % payers.length]!(offers[n % paidOn.length]!)
  const calls: PaidCall[] = []
  const received: LoadResponse[] = []
  const freeResponses: LoadResponse[] = []
  let isOpen = true
  let giveUpMs = Number.POSITIVE_INFINITY
  let numbers = 0

  /** Undefined when nothing was heard. */
  async function presentAt(
    gateway: Gateway,
    target: string,
    payment: string,
    callBeganMs: number,
  ): Promise<Answer | undefined> {
    const atMs = performance.now()
    const note = (response: string) =>
      void received.push({
        gateway: gateway.name,
        callBeganMs,
        atMs,
        tookMs: performance.now() - atMs,
        response,
      })
    try {
      const response = await get(gateway.url + target, { 'payment-signature': payment }, ANSWER_MS)
      note([response.status, response.body.error?.code].filter(Boolean).join(' '))
      return response
    } catch (error) {
      note(nameOf(error))
      return undefined
    }
  }

  const open = new Set<Promise<void>>()
  const newCall = (): PaidCall => {
    const call: PaidCall = {
      n: numbers++,
      beganMs: performance.now(),
      endedMs: undefined,
      struckMs: undefined,
      at: undefined,
      final: undefined,
    }
    calls.push(call)
    return call
  }
  const targetOf = ({ n }: PaidCall) => `${world.paid}?n=${n}`

  /** One presentation of a call's payment. @returns whether its answer is final */
  async function present(call: PaidCall, gateway: Gateway, payment: string): Promise<boolean> {
    call.at = gateway
    const response = await presentAt(gateway, targetOf(call), payment, call.beganMs)
    call.at = undefined
    if (response === undefined || response.status >= 500 || response.body.error?.retryable === true)
      return false
    if (response.status === 200 && gateway.isUp) gateway.hasServed = true
    call.endedMs = performance.now()
    call.final = response
    return true
  }

  /** The same payment again and again, at the other gateway each time, until there is an answer that is final. */
  async function persist(call: PaidCall, payment: string): Promise<void> {
    let waitMs = RETRY_MS
    for (let turn = Math.floor(random() * gateways.length); ; turn++) {
      const isOver = await present(call, gateways[turn % gateways.length]!, payment)
      if (isOver || performance.now() > giveUpMs) return
      await sleep(waitMs)
      waitMs = Math.min(2 * waitMs, MAX_RETRY_MS)
    }
  }

  function keepOpen(work: Promise<void>): void {
    const noted = work.finally(() => open.delete(noted))
    open.add(noted)
  }

  async function pay(): Promise<void> {
    const beganMs = performance.now()
    for (let n = 0; isOpen; n++) {
      const aheadMs = beganMs + (n * 1_000) / options.rate - performance.now()
      if (aheadMs > 1) await sleep(aheadMs)
      // A machine that was too slow for a while does not make up for it.
      while (open.size >= MAX_OPEN_S * options.rate && isOpen) await sleep(20)
      const call = newCall()
      keepOpen(sign(call.n).then((payment) => persist(call, payment)))
    }
  }

  async function askFree(gateway: Gateway): Promise<void> {
    while (isOpen) {
      const { generation, isUp } = gateway
      const atMs = performance.now()
      const response = await get(gateway.url + world.free, {}, 5_000)
        .then(({ status }) => String(status))
        .catch(nameOf)
      // What was on its way to a gateway that is struck may go with it.
      if (isUp && gateway.isUp && gateway.generation === generation)
        freeResponses.push({
          gateway: gateway.name,
          callBeganMs: atMs,
          atMs,
          tookMs: performance.now() - atMs,
          response,
        })
      await sleep(FREE_MS)
    }
  }
  let running: Promise<void>[] = []

  return {
    calls,
    received,
    freeResponses,
    begin() {
      running = [pay(), ...gateways.map(askFree)]
    },
    struck(gateway) {
      gateway.isUp = false
      const nowMs = performance.now()
      for (const call of calls)
        if (call.at === gateway || (call.struckMs !== undefined && call.endedMs === undefined))
          call.struckMs = nowMs
    },
    async servedAt(gateway, patienceMs) {
      const call = newCall()
      const payment = await sign(call.n)
      const deadlineMs = performance.now() + patienceMs
      while (performance.now() < deadlineMs) {
        const beganMs = performance.now()
        if (await present(call, gateway, payment)) return { beganMs, answeredMs: performance.now() }
        await sleep(100)
      }
      keepOpen(persist(call, payment))
      return undefined
    },
    async presentAtOnce(times) {
      const call = newCall()
      const payment = await sign(call.n)
      const target = targetOf(call)
      const responses = await Promise.all(
        Array.from({ length: times }, (_, i) =>
          get(gateways[i % gateways.length]!.url + target, { 'payment-signature': payment }, 60_000),
        ),
      )
      call.endedMs = performance.now()
      call.final = responses.find(({ status }) => status === 200) ?? responses[0]
      return { target, responses }
    },
    async end() {
      isOpen = false
      giveUpMs = performance.now() + PATIENCE_MS
      await Promise.all(running)
      await Promise.all(open)
    },
  }
}

function nameOf(error: unknown): string {
  const { name, code } = error as NodeJS.ErrnoException
  return code === 'ETIMEDOUT' ? 'no answer' : (code ?? name)
}
