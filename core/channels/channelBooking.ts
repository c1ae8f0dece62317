import { type Job, startJob } from '../jobs/job.ts'
import type { Chains } from '../ports/chains/chains.ts'
import type { Log } from '../ports/log.ts'
import type { ChannelBooks } from '../ports/store/channelBooks.ts'

/** Pause between two runs, in ms. Statistics and webhooks are at most this much behind the calls. */
const EVERY_MS = 1_000
/** Maximum number of sums in one transaction, because other writes wait for it. */
const MAX_SUMS = 200

export interface ChannelBookingDeps {
  readonly books: ChannelBooks
  readonly assets: Chains['assets']
  readonly log: Log
}

/**
 * Books what payment channels were charged and claimed, and tells webhooks. It reads and writes only the database, so it is right in
 * any number of processes, and after a crash the next run books the rest.
 */
export function startChannelBooking({ books, assets, log }: ChannelBookingDeps): Job {
  return startJob({
    name: 'book the calls of payment channels',
    everyMs: EVERY_MS,
    log,
    async run(signal) {
      // Both move at most this many sums and claims, so a full batch means that there may be more.
      while (!signal.aborted && (await books.book(assets, MAX_SUMS)) >= MAX_SUMS);
      while (!signal.aborted && (await books.addEvents(assets, MAX_SUMS)) >= MAX_SUMS);
    },
  })
}
