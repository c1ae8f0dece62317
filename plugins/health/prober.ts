import { setTimeout as sleep } from 'node:timers/promises'
import type { ServedLink } from '../../core/domain/link.ts'
import type { Links } from '../../core/ports/links.ts'
import type { Log } from '../../core/ports/log.ts'

export interface ProberParts {
  readonly links: Pick<Links, 'allServed'>
  readonly log: Log
  readonly intervalMs: number
  /** Asks the link's API, and judges what it saw. */
  probe(link: ServedLink): Promise<void>
}

/**
 * Asks every link's API in turn, spread over the interval with jitter so that no seller is asked in step with others. One
 * that has not answered yet is left out: verdicts come in the order of the questions.
 */
export async function runProber(parts: ProberParts, signal: AbortSignal): Promise<void> {
  const { links, log, intervalMs } = parts
  const asking = new Set<string>()
  async function probeOnce(link: ServedLink): Promise<void> {
    if (asking.has(link.id)) return
    asking.add(link.id)
    await parts
      .probe(link)
      .catch((err: unknown) => log.warn({ err, linkId: link.id }, 'could not note a probe'))
    asking.delete(link.id)
  }
  while (!signal.aborted) {
    const served = await links.allServed().catch((err: unknown) => {
      log.warn({ err }, 'could not read the links to probe')
      return []
    })
    const stepMs = intervalMs / Math.max(served.length, 1)
    for (const link of served) {
      await pause(stepMs * (0.5 + Math.random()), signal)
      if (signal.aborted) return
      // Not awaited: one slow API must not hold up the others' turn.
      if (link.suspension === null && link.linkType === 'api') void probeOnce(link)
    }
    if (served.length === 0) await pause(intervalMs, signal)
  }
}

const pause = (ms: number, signal: AbortSignal) =>
  sleep(ms, undefined, { signal, ref: false }).catch(() => undefined)
