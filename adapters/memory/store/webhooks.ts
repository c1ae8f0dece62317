import { randomBytes, randomUUID } from 'node:crypto'
import type { Link } from '../../../core/domain/link.ts'
import {
  kindsOfLinks,
  newEventId,
  type WebhookDelivery,
  type WebhookEndpoint,
  type WebhookEvent,
  type WebhookKind,
} from '../../../core/domain/webhook.ts'
import { tooManyEndpoints } from '../../../core/ports/refusals.ts'
import { cursorAt, readCursor } from '../../../core/ports/store/purchases.ts'
import {
  AT_ONCE_PER_ENDPOINT,
  AT_ONCE_PER_STORE,
  DELIVERY_LEASE_MS,
  LONGEST_HELD_MS,
  LONGEST_WAIT_MS,
  type TakenDelivery,
  TRIES_KEPT,
  type Webhooks,
} from '../../../core/ports/store/webhooks.ts'
import type { Access } from './access.ts'
import type { DeliveryRow, EventRow, Memory } from './memory.ts'

/** Whether an endpoint hears of a kind that happened to a link of a store. */
export const hears = (
  { disabledAtMs, kinds, ...endpoint }: WebhookEndpoint,
  kind: WebhookKind,
  storeId: string,
  linkId: string | null,
): boolean =>
  disabledAtMs === null &&
  endpoint.storeId === storeId &&
  (endpoint.linkId === null || endpoint.linkId === linkId) &&
  kinds.includes(kind)

/** Of a purchase, or of a session. */
const toldOnce: readonly WebhookKind[] = ['purchase.confirmed', 'payment.confirmed', 'payment.expired']

/** Writes an event, inside the write of what it tells, when somebody listens. */
export function tell(memory: Memory, event: Omit<WebhookEvent, 'seq' | 'id'>): void {
  const { endpoints, events } = memory.tables
  const { kind, storeId, linkId, purchaseId, sessionId } = event
  if (!endpoints.values().some((one) => hears(one, kind, storeId, linkId))) return
  const isTold = (one: EventRow) =>
    one.kind === kind && one.purchaseId === purchaseId && one.sessionId === sessionId
  // A sale that left the chain and came back is booked again, and was told.
  if (toldOnce.includes(kind) && events.values().some(isTold)) return
  const seq = memory.nextId()
  events.set(seq, { ...event, seq, id: newEventId(), body: null })
}

/** Keeps the endpoint of a link's `webhookUrl` as the link says, inside the link's own write. */
export function setEndpointOfLink(memory: Memory, link: Link, before: Link | undefined): void {
  const { endpoints, deliveries } = memory.tables
  const { id, storeId, webhookUrl: url, updatedAtMs: atMs } = link
  if (url === (before?.webhookUrl ?? null)) return
  if (url === null) return void removeEndpoint(memory, id)
  const present = endpoints.get(id)
  const afresh = { disabledAtMs: null, disabledReason: null, failingSinceMs: null, url, updatedAtMs: atMs }
  if (present !== undefined) {
    const listeningSinceMs = present.disabledAtMs === null ? present.listeningSinceMs : atMs
    endpoints.set(id, { ...present, ...afresh, listeningSinceMs })
    for (const one of deliveries.values())
      if (one.endpointId === id && one.state === 'held') deliveries.set(one.id, { ...one, state: 'waiting' })
    return
  }
  endpoints.set(id, {
    ...{
      id,
      storeId,
      linkId: id,
      description: '',
      kinds: kindsOfLinks,
      salt: randomBytes(16).toString('hex'),
    },
    ...{ previousSalt: null, previousUntilMs: null, listeningSinceMs: atMs, createdAtMs: atMs, ...afresh },
  })
}

function removeEndpoint({ tables: { endpoints, deliveries } }: Memory, id: string): void {
  endpoints.delete(id)
  for (const one of deliveries.values())
    if (one.endpointId === id && (one.state === 'waiting' || one.state === 'held'))
      deliveries.set(one.id, { ...one, state: 'failed' })
}

/** Endpoints and the outbox in memory. */
export function createWebhooks(memory: Memory, { read, write }: Access): Webhooks {
  const { tables, storeClock } = memory
  const { endpoints, events, deliveries, links } = tables

  /** Whose turn was last. */
  let afterStore = ''

  const isLeased = ({ leasedUntilMs }: DeliveryRow) =>
    leasedUntilMs !== null &&
    leasedUntilMs > storeClock.now() &&
    leasedUntilMs <= storeClock.now() + LONGEST_HELD_MS

  const isWaiting = (seq: number) =>
    deliveries.values().some((row) => row.seq === seq && row.state === 'waiting')

  function setStates(endpointId: string, from: DeliveryRow['state'], to: DeliveryRow['state']): void {
    for (const one of deliveries.values())
      if (one.endpointId === endpointId && one.state === from) deliveries.set(one.id, { ...one, state: to })
  }

  function toDelivery({
    id,
    endpointId,
    seq,
    state,
    tries,
    dueAtMs,
    createdAtMs,
  }: DeliveryRow): WebhookDelivery {
    const { id: eventId, kind } = events.get(seq)!
    const due = state === 'waiting' ? dueAtMs : null
    return { id, endpointId, eventId, kind, state, tries, dueAtMs: due, createdAtMs }
  }

  function toTaken(row: DeliveryRow): TakenDelivery {
    const taking = row.taking + 1
    deliveries.set(row.id, { ...row, taking, leasedUntilMs: storeClock.now() + DELIVERY_LEASE_MS })
    const { body, ...event } = events.get(row.seq)!
    const endpoint = endpoints.get(row.endpointId)!
    return { id: row.id, taking, tries: row.tries, event, body: body!, endpoint }
  }

  /** Takes what each endpoint of a store may have of the store's room. */
  function takeOfStore(rows: readonly DeliveryRow[], most: number, nowMs: number): TakenDelivery[] {
    const leased = rows.filter(isLeased)
    const isDue = (row: DeliveryRow) =>
      !isLeased(row) && (row.dueAtMs <= nowMs || row.dueAtMs > nowMs + LONGEST_WAIT_MS)
    const due = rows.filter((row) => row.state === 'waiting' && isDue(row)).sort((a, b) => a.n - b.n)
    const chosen = [...Map.groupBy(due, (row) => row.endpointId)].flatMap(([id, waiting]) => {
      const most = endpoints.get(id)!.failingSinceMs === null ? AT_ONCE_PER_ENDPOINT : 1
      return waiting.slice(0, Math.max(0, most - leased.filter((row) => row.endpointId === id).length))
    })
    return chosen.slice(0, Math.max(0, Math.min(most, AT_ONCE_PER_STORE - leased.length))).map(toTaken)
  }

  return {
    create: ({ createdAtMs: atMs, ...given }, most) =>
      write('flushed', () => {
        const own = endpoints.values().filter((one) => one.storeId === given.storeId && one.linkId === null)
        if (own.length >= most) throw tooManyEndpoints(most)
        endpoints.set(given.id, {
          ...given,
          ...{
            linkId: null,
            previousSalt: null,
            previousUntilMs: null,
            disabledAtMs: null,
            disabledReason: null,
          },
          ...{ failingSinceMs: null, listeningSinceMs: atMs, createdAtMs: atMs, updatedAtMs: atMs },
        })
      }),

    find: (id) => read(() => endpoints.get(id)),

    ofStore: (storeId) =>
      read(() =>
        endpoints
          .values()
          .filter(
            (one) => one.storeId === storeId && (one.linkId === null || links.get(one.linkId)?.isActive),
          )
          .sort((a, b) => a.createdAtMs - b.createdAtMs || (a.id < b.id ? -1 : 1)),
      ),

    change: (id, { isEnabled, rotation, ...given }, atMs) =>
      write('flushed', () => {
        const before = endpoints.get(id)
        if (before === undefined) return undefined
        const next: WebhookEndpoint = {
          ...before,
          ...given,
          updatedAtMs: atMs,
          ...((given.kinds !== undefined || isEnabled === true) && { listeningSinceMs: atMs }),
          ...(isEnabled === true && { disabledAtMs: null, disabledReason: null, failingSinceMs: null }),
          ...(isEnabled === false && {
            disabledAtMs: before.disabledAtMs ?? atMs,
            disabledReason: before.disabledReason ?? 'seller',
          }),
          ...(rotation !== undefined && { ...rotation, previousSalt: before.salt }),
        }
        endpoints.set(id, next)
        if (isEnabled === true) setStates(id, 'held', 'waiting')
        if (isEnabled === false) setStates(id, 'waiting', 'held')
        return next
      }),

    remove: (id) =>
      write('flushed', () => {
        if (endpoints.get(id)?.linkId !== null) return false
        removeEndpoint(memory, id)
        return true
      }),

    test: (id, eventId, atMs) =>
      write('flushed', () => {
        const endpoint = endpoints.get(id)
        if (endpoint === undefined || endpoint.disabledAtMs !== null) return undefined
        const { storeId, linkId } = endpoint
        const seq = memory.nextId()
        const about = {
          kind: 'test',
          storeId,
          linkId,
          purchaseId: null,
          sessionId: null,
          endpointId: id,
          detail: null,
        } as const
        events.set(seq, { ...about, seq, id: eventId, atMs, body: null })
        return eventId
      }),

    deliveries: (endpointId, { cursor, limit }) =>
      read(() => {
        const before = cursor === undefined ? Number.POSITIVE_INFINITY : Number(readCursor(cursor).id)
        const found = deliveries
          .values()
          .filter((row) => row.endpointId === endpointId && row.n < before)
          .sort((a, b) => b.n - a.n)
        const shown = found.slice(0, limit)
        const last = found.length > limit ? shown.at(-1) : undefined
        const nextCursor = last === undefined ? null : cursorAt(last.createdAtMs, String(last.n))
        return { deliveries: shown.map(toDelivery), nextCursor }
      }),

    delivery: (id) =>
      read(() => {
        const row = deliveries.get(id)
        return row && { delivery: toDelivery(row), body: events.get(row.seq)!.body!, tries: row.log }
      }),

    replay: (id, atMs) =>
      write('flushed', () => {
        const row = deliveries.get(id)
        if (row === undefined || endpoints.get(row.endpointId)?.disabledAtMs !== null) return false
        deliveries.set(id, { ...row, state: 'waiting', tries: 0, dueAtMs: atMs })
        return true
      }),

    unspread: (limit) =>
      read(() =>
        events
          .values()
          .filter(({ body }) => body === null)
          .sort((a, b) => a.seq - b.seq)
          .slice(0, limit)
          .map(({ body: _, ...event }) => event),
      ),

    spread: (spread, atMs) =>
      write('visible', () => {
        for (const { seq, body } of spread) {
          const event = events.get(seq)
          if (event === undefined || event.body !== null) continue
          events.set(seq, { ...event, body })
          const { kind, storeId, linkId, endpointId } = event
          for (const one of endpoints.values()) {
            const isMeant = endpointId === null ? hears(one, kind, storeId, linkId) : one.id === endpointId
            if (!isMeant || one.disabledAtMs !== null) continue
            const id = randomUUID()
            deliveries.set(id, {
              ...{ n: memory.nextId(), id, seq, endpointId: one.id, storeId, state: 'waiting', tries: 0 },
              ...{ dueAtMs: atMs, createdAtMs: atMs, taking: 0, leasedUntilMs: null, log: [] },
            })
          }
        }
      }),

    take: ({ limit, nowMs }) =>
      write('visible', () => {
        const byStore = Map.groupBy(deliveries.values(), (row) => row.storeId)
        const order = [...byStore.keys()].sort()
        const turns = [...order.filter((id) => id > afterStore), ...order.filter((id) => id <= afterStore)]
        const taken: TakenDelivery[] = []
        for (const store of turns) {
          if (taken.length === limit) break
          taken.push(...takeOfStore(byStore.get(store)!, limit - taken.length, nowMs))
          afterStore = store
        }
        return taken
      }),

    note: ({ id, taking, try: one, to, dueAtMs, disable }) =>
      write('visible', () => {
        const row = deliveries.get(id)
        if (row === undefined || row.taking !== taking || (row.state !== 'waiting' && row.state !== 'held'))
          return false
        deliveries.set(id, {
          ...{ ...row, state: to, dueAtMs: dueAtMs ?? row.dueAtMs, leasedUntilMs: null },
          ...(one !== null && { tries: row.tries + 1, log: [...row.log, one].slice(-TRIES_KEPT) }),
        })
        const before = endpoints.get(row.endpointId)
        if (before === undefined) return true
        if (one === null) {
          if (before.disabledAtMs !== null) setStates(before.id, 'waiting', 'held')
          return true
        }
        const failingSinceMs = to === 'delivered' ? null : (before.failingSinceMs ?? one.atMs)
        const isOff =
          disable !== undefined &&
          before.disabledAtMs === null &&
          (disable.ifFailingSinceMs === undefined ||
            (failingSinceMs !== null && failingSinceMs <= disable.ifFailingSinceMs))
        const off = isOff && { disabledAtMs: one.atMs, disabledReason: disable.reason, updatedAtMs: one.atMs }
        const next = { ...before, failingSinceMs, ...off }
        endpoints.set(before.id, next)
        if (next.disabledAtMs !== null) setStates(before.id, 'waiting', 'held')
        return true
      }),

    forget: (beforeMs, limit) =>
      write('visible', () => {
        const old = events
          .values()
          .filter(({ atMs, body, seq }) => atMs < beforeMs && body !== null && !isWaiting(seq))
          .slice(0, limit)
        for (const { seq } of old) {
          events.delete(seq)
          for (const row of deliveries.values()) if (row.seq === seq) deliveries.delete(row.id)
        }
        return old.length
      }),
  }
}
