import { TollgateError } from '../core/errors/error.ts'
import { createLoopMarks } from '../core/http/loopMark.ts'
import { type Job, startJob } from '../core/jobs/job.ts'
import type { Generation } from '../core/kernel/generation.ts'
import type { ServiceFacts } from '../core/plugin/ports.ts'
import type { ProcessCalls } from '../core/ports/callCounts.ts'
import type { Chains } from '../core/ports/chains/chains.ts'
import type { Clock } from '../core/ports/clock.ts'
import type { LinkCalls } from '../core/ports/linkCalls.ts'
import type { Log } from '../core/ports/log.ts'
import type { Sealer } from '../core/ports/sealer.ts'
import type { Changes } from '../core/ports/store/changes.ts'
import { AccessLog, type AccessLogOptions, type Calls, endOverdue, newCalls } from './call.ts'
import { createLinkCalls } from './linkCalls.ts'
import { Router } from './router.ts'
import { type Addresses, LiveGeneration } from './routeTable.ts'

/** Pause between two checks for calls that are over their time limit, in ms. */
const OVERDUE_MS = 1_000

export interface CallPlaneDeps {
  readonly links: Addresses
  readonly changes: Changes
  readonly chains: Pick<Chains, 'assets'>
  readonly clock: Clock
  readonly log: Log
  readonly service: Pick<ServiceFacts, 'publicUrl'>
  readonly sealer: Pick<Sealer, 'mac'>
}

export interface CallLimits {
  /** Maximum time until a call's response has begun, in ms. After that, the gateway ends the call. */
  readonly callTimeoutMs: number
  /** Maximum head of a call over a transport other than HTTP, in bytes. */
  readonly maxHeaderBytes: number
  readonly accessLog: AccessLogOptions
}

/** The pipelines of links and the routes to them. It has no listener, so calls over other transports can use it alone. */
export class CallPlane {
  readonly router: Router
  readonly accessLog: AccessLog
  /** Calls links over other transports. Once the plane is closed, each call gets an error that its caller may retry. */
  readonly linkCalls: LinkCalls
  readonly #live: LiveGeneration
  readonly #calls: Calls
  readonly #overdue: Job
  #isClosed = false

  constructor(first: Generation, deps: CallPlaneDeps, limits: CallLimits) {
    const { links, changes, chains, clock, log, service, sealer } = deps
    this.#live = new LiveGeneration(first, links, changes, clock)
    this.accessLog = new AccessLog(log, clock, limits.accessLog)
    this.#calls = newCalls(log, chains.assets, this.accessLog)
    const loopMarks = createLoopMarks(service.publicUrl, sealer)
    this.router = new Router(this.#live, this.#calls, clock, loopMarks)
    this.#overdue = startJob({
      name: 'end calls that take too long',
      everyMs: OVERDUE_MS,
      log,
      run: () => endOverdue(this.#calls, limits.callTimeoutMs),
    })
    const linkCalls = createLinkCalls(this.router, limits.maxHeaderBytes)
    this.linkCalls = {
      call: async (request) => {
        if (this.#isClosed) throw stopping()
        return linkCalls.call(request)
      },
    }
  }

  /** How this plane's calls have ended so far. */
  counts(): NonNullable<ProcessCalls['calls']> {
    return { ...this.#calls.counts, underWay: this.#calls.underWay.length }
  }

  /** The current generation. Use it only within this turn of the event loop, because the gateway may close it after that. */
  get generation(): Generation {
    return this.#live.current.generation
  }

  /** Makes another generation serve all new calls. `retired` resolves when the last call of the old generation has ended. */
  swap(generation: Generation): Promise<{ readonly retired: Promise<void> }> {
    return this.#live.swap(generation)
  }

  /** Breaks off all running calls. The statistics count each response that is cut off as the gateway's fault. */
  cutOff(): void {
    for (const { x } of this.#calls.underWay) x.transport.cutOff()
  }

  /** Waits until the running calls have ended. */
  close(): Promise<void> {
    this.#isClosed = true
    void this.#overdue.stop()
    return this.#live.close()
  }
}

/** The response to a call that arrives when the gateway is about to stop. */
export const stopping = () => new TollgateError('NOT_READY', 'The gateway is stopping. Call again.')
