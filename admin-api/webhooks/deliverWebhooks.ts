import { setTimeout as sleep } from 'node:timers/promises'
import type { WebhookTry } from '../../core/domain/webhook.ts'
import { EVENTS_KEPT_MS, type TakenDelivery, type TryOutcome } from '../../core/ports/store/webhooks.ts'
import type { Api } from '../deps.ts'
import { eventBody } from './eventBody.ts'
import { nextTryInMs, TRIES_AT_MS } from './schedule.ts'
import { signWebhook } from './signWebhook.ts'

/** Between two looks for what is to be told. */
const POLL_MS = 500
/** Between two, however many tries end in between. */
const LEAST_PAUSE_MS = 20
/** Tries of this process at once; an event and what is kept of its answer are some kilobytes each. */
const AT_ONCE = 256
/** Events whose bodies are composed together. */
const SPREAD_AT_ONCE = 100
const TIMEOUT_MS = 15_000
/** Of the answer; more is not read. */
const ANSWER_BYTES = 1_024
/** What is under way when the process ends has so long to come to its own end. */
const GRACE_MS = 2_000
/** Between two looks for events that are too old to be kept, and how many go at once: no payment waits long behind them. */
const FORGET_MS = 60_000
const FORGOTTEN_AT_ONCE = 50
/** Pauses before the outcome of a try is written again, while the store is away; its lease is over by the last. */
const NOTE_PAUSES_MS = [200, 1_000, 5_000]

/** What sending needs of the API. */
export type SendingApi = Pick<
  Api,
  'webhooks' | 'purchases' | 'links' | 'sessions' | 'egress' | 'sealer' | 'clock' | 'log'
>

/**
 * Sends what the outbox holds, until the signal. Any number of processes may run it: the store gives each delivery to one
 * at a time, and what a process that was killed had in hand to the next one when the lease is over. So an event is sent
 * at least once, and always under the one id that it was written with.
 */
export async function deliverWebhooks(api: SendingApi, stopped: AbortSignal): Promise<void> {
  const { webhooks, clock, log } = api
  const inHand = new Set<Promise<void>>()
  const broken = new AbortController()
  let forgetAtMs = 0
  /** Ends the pause: somebody's turn may have come. */
  let wake = () => {}
  stopped.addEventListener('abort', () => wake())

  async function spread(): Promise<void> {
    for (;;) {
      const events = await webhooks.unspread(SPREAD_AT_ONCE)
      const bodies = events.map(async (event) => ({ seq: event.seq, body: await eventBody(api, event) }))
      await webhooks.spread(await Promise.all(bodies), clock.now())
      if (events.length < SPREAD_AT_ONCE) return
    }
  }

  async function send(): Promise<void> {
    const limit = AT_ONCE - inHand.size
    if (limit === 0) return
    for (const delivery of await webhooks.take({ limit, nowMs: clock.now() })) {
      const work = tryOnce(api, delivery, broken.signal).finally(() => {
        inHand.delete(work)
        wake()
      })
      inHand.add(work)
    }
  }

  async function forget(): Promise<void> {
    const nowMs = clock.now()
    if (nowMs < forgetAtMs) return
    const gone = await webhooks.forget(nowMs - EVENTS_KEPT_MS, FORGOTTEN_AT_ONCE)
    forgetAtMs = gone < FORGOTTEN_AT_ONCE ? nowMs + FORGET_MS : nowMs
  }

  /** Until a try is over, and not longer than it takes to look again; a little in any case, because payments write as well. */
  async function pause(): Promise<void> {
    const woken = Promise.withResolvers<void>()
    wake = woken.resolve
    await sleep(LEAST_PAUSE_MS)
    const timer = setTimeout(woken.resolve, POLL_MS).unref()
    if (!stopped.aborted) await woken.promise
    clearTimeout(timer)
  }

  while (!stopped.aborted) {
    try {
      await spread()
      await send()
      await forget()
    } catch (err) {
      log.warn({ err }, 'could not look for webhooks to send; trying again')
    }
    await pause()
  }
  const grace = setTimeout(() => broken.abort(), GRACE_MS)
  await Promise.all(inHand)
  clearTimeout(grace)
}

/** One try, and what is written of it. Never rejects: what could not be written is tried again when its lease is over. */
async function tryOnce(api: SendingApi, delivery: TakenDelivery, signal: AbortSignal): Promise<void> {
  const { id, taking, endpoint } = delivery
  try {
    const done = await post(api, delivery, signal)
    const outcome: TryOutcome = { id, taking, ...(done === null ? brokenOff : outcomeOf(delivery, done)) }
    if (!(await insist(api, outcome)) || outcome.disable === undefined) return
    const { disabledReason } = (await api.webhooks.find(endpoint.id)) ?? {}
    if (disabledReason != null)
      api.log.warn(
        { webhookId: endpoint.id, storeId: endpoint.storeId, disabledReason },
        'a webhook was disabled',
      )
  } catch (err) {
    api.log.warn({ err, deliveryId: id }, 'could not note how a webhook went')
  }
}

const brokenOff = { try: null, to: 'waiting' } as const

async function insist(api: SendingApi, outcome: TryOutcome): Promise<boolean> {
  for (const pauseMs of NOTE_PAUSES_MS) {
    try {
      return await api.webhooks.note(outcome)
    } catch {
      await sleep(pauseMs)
    }
  }
  return api.webhooks.note(outcome)
}

/** @returns null when the process ended meanwhile: nobody knows how it went */
async function post(
  { egress, sealer, clock }: SendingApi,
  { event, body, endpoint }: TakenDelivery,
  signal: AbortSignal,
): Promise<WebhookTry | null> {
  const atMs = clock.now()
  const startMs = performance.now()
  const done = (status: number | null, error: string | null, answer = '') => ({
    ...{ atMs, status, error, answer, latencyMs: Math.round(performance.now() - startMs) },
  })
  try {
    const { status, body: answer } = await egress.request({
      url: endpoint.url,
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        'user-agent': 'Tollgate-Webhooks/1',
        ...signWebhook(sealer, endpoint, { eventId: event.id, body, nowMs: atMs }),
      },
      body,
      timeoutMs: TIMEOUT_MS,
      maxBytes: ANSWER_BYTES,
      isCut: true,
      signal,
    })
    return done(status, errorOf(status), textOf(answer))
  } catch (error) {
    if (signal.aborted) return null
    return done(null, (error as Error).message)
  }
}

function errorOf(status: number): string | null {
  if (status >= 200 && status < 300) return null
  if (status >= 300 && status < 400)
    return `It answered ${status}; redirects are not followed. Name the address that they lead to.`
  if (status === 410) return 'It answered 410 (Gone): the webhook was disabled.'
  return `It answered ${status}; expected 200 to 299.`
}

/** As far as it is text: what a database does not keep, and what is no character, is shown as U+FFFD. */
const textOf = (bytes: Uint8Array): string => new TextDecoder().decode(bytes).replaceAll('\0', '\ufffd')

function outcomeOf({ tries }: TakenDelivery, done: WebhookTry): Omit<TryOutcome, 'id' | 'taking'> {
  if (done.error === null) return { try: done, to: 'delivered' }
  if (done.status === 410) return { try: done, to: 'failed', disable: { reason: 'gone' } }
  const waitMs = nextTryInMs(tries + 1, Math.random())
  if (waitMs !== undefined) return { try: done, to: 'waiting', dueAtMs: done.atMs + waitMs }
  // Not one that has just begun to fail: its other events got through while this one was tried.
  const ifFailingSinceMs = done.atMs - TRIES_AT_MS.at(-1)!
  return { try: done, to: 'failed', disable: { reason: 'failing', ifFailingSinceMs } }
}
