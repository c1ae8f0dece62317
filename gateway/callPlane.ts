import { TollgateError } from '../core/errors/error.ts'
import { createLoopMarks } from '../core/http/loopMark.ts'
import type { Generation } from '../core/kernel/generation.ts'
import type { ServiceFacts } from '../core/plugin/ports.ts'
import type { ProcessCalls } from '../core/ports/callCounts.ts'
import type { Chains } from '../core/ports/chains/chains.ts'
import type { Clock } from '../core/ports/clock.ts'
import type { LinkCalls } from '../core/ports/linkCalls.ts'
import type { Log } from '../core/ports/log.ts'
import type { Sealer } from '../core/ports/sealer.ts'
import type { Changes } from '../core/ports/store/changes.ts'
import { AccessLog, type AccessLogOptions } from './accessLog.ts'
import { endOverdue, newCalls } from './call.ts'
import { createLinkCalls } from './linkCalls.ts'
import { LiveGeneration } from './liveGeneration.ts'
import { createRouter, type Router } from './router.ts'
import type { Addresses } from './routeTable.ts'

/** Calls that are over their time are looked for this often. */
const OVERDUE_MS = 1_000

export interface CallPlaneParts {
  readonly links: Addresses
  readonly changes: Changes
  readonly chains: Pick<Chains, 'assets'>
  readonly clock: Clock
  readonly log: Log
  readonly service: Pick<ServiceFacts, 'publicUrl'>
  readonly sealer: Pick<Sealer, 'mac'>
}

/** Links' programs, and the way to them: what is behind a listener, and all of it where calls need none. */
export interface CallPlane {
  readonly router: Router
  readonly accessLog: AccessLog
  /** They are refused, to be made again, once it is closed. */
  readonly linkCalls: LinkCalls
  /** What became of its calls, as of now. */
  counts(): NonNullable<ProcessCalls['calls']>
  /** What answers now; what is asked of it is over before the next turn, so that it is not closed meanwhile. */
  readonly generation: Generation
  /** Makes another generation answer from the next call on; the old one is `retired` when its last call has ended. */
  swap(generation: Generation): Promise<{ readonly retired: Promise<void> }>
  /** Breaks off all calls under way: what they owe their callers was not sent by the gateway's own doing. */
  cutOff(): void
  /** Waits for the calls under way. */
  close(): Promise<void>
}

export interface CallLimits {
  /** After which a call is ended whose answer has not begun. */
  readonly callTimeoutMs: number
  /** Of the head of a call that comes by another way than HTTP. */
  readonly maxHeaderBytes: number
  readonly accessLog: AccessLogOptions
}

export function createCallPlane(first: Generation, parts: CallPlaneParts, limits: CallLimits): CallPlane {
  const { links, changes, chains, clock, log, service, sealer } = parts
  const live = new LiveGeneration(first, links, changes, clock)
  const accessLog = new AccessLog(log, clock, limits.accessLog)
  const calls = newCalls(log, chains.assets, accessLog)
  const loopMarks = createLoopMarks(service.publicUrl, sealer)
  const router = createRouter({ live, clock, calls, loopMarks })
  const overdue = setInterval(endOverdue, OVERDUE_MS, calls, limits.callTimeoutMs)
  overdue.unref()
  const linkCalls = createLinkCalls(router, limits.maxHeaderBytes)
  let isClosed = false
  return {
    router,
    accessLog,
    linkCalls: {
      async call(request) {
        if (isClosed) throw stopping()
        return linkCalls.call(request)
      },
    },
    counts: () => ({ ...calls.counts, underWay: calls.underWay.length }),
    get generation() {
      return live.current.generation
    },
    swap: (generation) => live.swap(generation),
    cutOff() {
      for (const { x } of calls.underWay) x.door.cutOff()
    },
    close() {
      isClosed = true
      clearInterval(overdue)
      return live.close()
    },
  }
}

/** What a call hears that comes when the gateway is about to stop. */
export const stopping = () => new TollgateError('NOT_READY', 'The gateway is stopping; call again.')
