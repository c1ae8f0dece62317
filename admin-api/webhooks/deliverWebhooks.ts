import { setTimeout as sleep } from 'node:timers/promises'
import type { WebhookTry } from '../../core/domain/webhook.ts'
import { type Job, startJob } from '../../core/jobs/job.ts'
import { EVENT_RETENTION_MS, type TakenDelivery, type TryOutcome } from '../../core/ports/store/webhooks.ts'
import type { Api } from '../deps.ts'
import { eventBody } from './eventBody.ts'
import { signWebhook } from './signWebhook.ts'

/** Time between two polls for events and deliveries that are due, in ms. */
const POLL_MS = 500
/** Shortest time between two polls, in ms, regardless of the tries that end in between. Payments need the database too. */
const MIN_GAP_MS = 20
/** Maximum number of concurrent tries of this process. An event and its stored response take a few kilobytes each. */
const AT_ONCE = 256
/** Maximum number of events whose bodies are composed in one batch. */
const FAN_OUT_BATCH = 100
const TIMEOUT_MS = 15_000
/** Bytes of the response that are read and stored. */
const ANSWER_BYTES = 1_024
/** Time for tries in progress to finish when the process stops, in ms. */
const GRACE_MS = 2_000
/** Time between two deletions of expired events, in ms. Each deletion is a small batch, so that no payment waits long. */
const FORGET_MS = 60_000
const FORGOTTEN_AT_ONCE = 50
/**
 * Pauses in ms before this process writes a try's outcome again while the database is down. After the last pause, the delivery's
 * lease has expired.
 */
const NOTE_PAUSES_MS = [200, 1_000, 5_000]

/** The dependencies of the job that sends webhooks. */
type SendingApi = Pick<
  Api,
  'webhooks' | 'purchases' | 'links' | 'sessions' | 'egress' | 'sealer' | 'clock' | 'log'
>

/**
 * Sends the webhooks in the outbox. Any number of processes may run this job. The database leases each delivery to one process at a
 * time. If a process is killed, another process gets its deliveries when their leases expire. So an event is sent at least once,
 * and always with the same id.
 */
export function deliverWebhooks(api: SendingApi): Pick<Job, 'stop'> {
  const { webhooks, clock, log } = api
  const inHand = new Set<Promise<void>>()
  const broken = new AbortController()
  let forgetAtMs = 0

  async function fanOut(): Promise<void> {
    for (;;) {
      const events = await webhooks.awaitingFanOut(FAN_OUT_BATCH)
      const bodies = events.map(async (event) => ({ seq: event.seq, body: await eventBody(api, event) }))
      await webhooks.fanOut(await Promise.all(bodies), clock.now())
      if (events.length < FAN_OUT_BATCH) return
    }
  }

  async function send(): Promise<void> {
    const limit = AT_ONCE - inHand.size
    if (limit === 0) return
    for (const delivery of await webhooks.take({ limit, nowMs: clock.now() })) {
      const work = tryOnce(api, delivery, broken.signal).finally(() => {
        inHand.delete(work)
        void job.runNow()
      })
      inHand.add(work)
    }
  }

  async function forget(): Promise<void> {
    const nowMs = clock.now()
    if (nowMs < forgetAtMs) return
    const gone = await webhooks.forget(nowMs - EVENT_RETENTION_MS, FORGOTTEN_AT_ONCE)
    forgetAtMs = gone < FORGOTTEN_AT_ONCE ? nowMs + FORGET_MS : nowMs
  }

  const job = startJob({
    name: 'send webhooks',
    everyMs: POLL_MS,
    minGapMs: MIN_GAP_MS,
    startsNow: true,
    log,
    async run() {
      await fanOut()
      await send()
      await forget()
    },
  })
  return {
    async stop() {
      await job.stop()
      const grace = setTimeout(() => broken.abort(), GRACE_MS)
      await Promise.all(inHand)
      clearTimeout(grace)
    },
  }
}

/**
 * Makes one try and records its outcome. If the outcome cannot be recorded, the try is repeated when its lease expires. Never
 * rejects.
 */
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
    api.log.warn({ err, deliveryId: id }, 'could not record the outcome of a webhook delivery')
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

/** @returns null if the outcome is unknown because the process stopped meanwhile */
async function post(
  { egress, sealer, clock }: SendingApi,
  { event, body, endpoint }: TakenDelivery,
  signal: AbortSignal,
): Promise<WebhookTry | null> {
  const atMs = clock.now()
  const startMs = performance.now()
  const done = (status: number | null, error: string | null, response = '') => ({
    atMs,
    status,
    error,
    response,
    latencyMs: Math.round(performance.now() - startMs),
  })
  try {
    const { status, body: response } = await egress.request({
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
    return done(status, errorOf(status), textOf(response))
  } catch (error) {
    if (signal.aborted) return null
    return done(null, (error as Error).message)
  }
}

function errorOf(status: number): string | null {
  if (status >= 200 && status < 300) return null
  if (status >= 300 && status < 400)
    return `The endpoint responded with ${status}, and redirects are not followed. Set the webhook to the final URL.`
  if (status === 410) return 'The endpoint responded with 410 (Gone), so the webhook was disabled.'
  return `The endpoint responded with ${status}. Expected 200 to 299.`
}

/** The response as text. U+FFFD replaces invalid bytes and NUL, which databases do not store. */
const textOf = (bytes: Uint8Array): string => new TextDecoder().decode(bytes).replaceAll('\0', '\ufffd')

function outcomeOf({ tries }: TakenDelivery, done: WebhookTry): Omit<TryOutcome, 'id' | 'taking'> {
  if (done.error === null) return { try: done, to: 'delivered' }
  if (done.status === 410) return { try: done, to: 'failed', disable: { reason: 'gone' } }
  const waitMs = nextTryInMs(tries + 1, Math.random())
  if (waitMs !== undefined) return { try: done, to: 'waiting', dueAtMs: done.atMs + waitMs }
  // The condition spares an endpoint that has only begun to fail, because it received other events while this one was tried.
  const ifFailingSinceMs = done.atMs - TRIES_AT_MS.at(-1)!
  return { try: done, to: 'failed', disable: { reason: 'failing', ifFailingSinceMs } }
}

const SECOND = 1_000
const MINUTE = 60 * SECOND
const HOUR = 60 * MINUTE

/** The times of an event's tries, in ms since the first try. */
export const TRIES_AT_MS: readonly number[] = [
  0,
  5 * SECOND,
  5 * MINUTE,
  30 * MINUTE,
  2 * HOUR,
  5 * HOUR,
  10 * HOUR,
  14 * HOUR,
  20 * HOUR,
  24 * HOUR,
]

/** Maximum part of a wait that is added at random, so that deliveries that failed together are not tried together again. */
const JITTER = 0.1

/**
 * The wait before the next try, in ms.
 *
 * @param tries number of finished tries, 1 or more
 * @param random from 0 to 1
 * @returns undefined after the last try
 */
export function nextTryInMs(tries: number, random: number): number | undefined {
  const [last, next] = [TRIES_AT_MS[tries - 1], TRIES_AT_MS[tries]]
  if (last === undefined || next === undefined) return undefined
  return Math.round((next - last) * (1 + JITTER * random))
}
