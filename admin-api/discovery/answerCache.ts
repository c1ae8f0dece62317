import { hash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import type { Change } from '../../core/ports/store/changes.ts'
import type { Api } from '../deps.ts'

/** How long an answer may be given again (marketplace interface, section 8). */
const KEPT_MS = 60_000
/** Whatever strangers ask for, no more than this is kept. */
const MAX_ANSWERS = 1_000
const MAX_CHARS = 16_000_000

/** What discovery answers, and whose links stand in it. */
export interface Answer {
  readonly body: string
  /** `username/slug` of every link in it. */
  readonly addresses: readonly string[]
  /** Of a page: the policy that it is sent with. */
  readonly policy?: string
}

export interface KeptAnswer extends Answer {
  readonly etag: string
}

/** Answers that everybody gets, kept for a minute. One that shows a link that changed goes at once. */
export interface AnswerCache {
  /** Those who ask for the same at once wait for one. */
  of(key: string, make: () => Promise<Answer>): Promise<KeptAnswer>
  close(): void
}

export function createAnswerCache({ clock, onChange }: Pick<Api, 'clock' | 'onChange'>): AnswerCache {
  const kept = new LRUCache<string, KeptAnswer>({
    max: MAX_ANSWERS,
    maxSize: MAX_CHARS,
    sizeCalculation: ({ body }, key) => body.length + key.length,
    ttl: KEPT_MS,
    ttlResolution: 0,
    perf: clock,
  })
  const underWay = new Map<string, Promise<KeptAnswer>>()
  let changes = 0

  const end = onChange((change) => {
    changes++
    // Who asks from now on does not wait for what may have been read before the change.
    underWay.clear()
    for (const [key, { addresses }] of [...kept.entries()]) {
      if (addresses.some((address) => isAbout(change, address))) kept.delete(key)
    }
  })

  async function makeOne(key: string, make: () => Promise<Answer>): Promise<KeptAnswer> {
    const before = changes
    const answer = await make()
    const made = { ...answer, etag: `W/"${hash('sha256', answer.body, 'base64url').slice(0, 22)}"` }
    // What changed meanwhile may or may not be in it.
    if (before === changes) kept.set(key, made)
    return made
  }

  return {
    async of(key, make) {
      const present = kept.get(key) ?? underWay.get(key)
      if (present !== undefined) return present
      const making = makeOne(key, make)
      underWay.set(key, making)
      try {
        return await making
      } finally {
        if (underWay.get(key) === making) underWay.delete(key)
      }
    },
    close: end,
  }
}

const isAbout = (change: Change, address: string): boolean =>
  change.kind === 'link'
    ? address === `${change.username}/${change.slug}`
    : address.startsWith(`${change.username}/`)
