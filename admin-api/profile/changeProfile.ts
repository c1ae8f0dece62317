import type { StoreId } from '../../core/domain/link.ts'
import type { Store } from '../../core/domain/store.ts'
import { TollgateError } from '../../core/errors/error.ts'
import type { StorePatch } from '../../core/ports/store/stores.ts'
import type { Api } from '../deps.ts'
import { hourMs } from '../http/rateLimits.ts'
import { validationError } from '../schema/validationError.ts'
import { canBePaid, type PayoutChange, payoutSigners, payoutStatement, readPayoutChange } from './payout.ts'
import type { ProfileBody } from './profileBody.ts'
import { needsSignature, readRename, signedRename } from './rename.ts'
import { withStoreProof } from './storeProof.ts'

/**
 * How often within an hour a store's links may all be listed anew because it is called otherwise: of a thousand links that is
 * a fifth of a second in which nothing else is written, no payment either.
 */
const DISPLAY_NAMES_PER_HOUR = 10
/** The same for wallets that come and go: whether there is one on a chain stands with every listed link. */
const PAYOUT_CHAINS_PER_HOUR = 10

type ChangeProfile = (store: Store, body: ProfileBody) => Promise<Store>

/**
 * Makes the change of a store by its owner. Those that a wallet signs wait for each other, store by store: a client that
 * got no answer sends the same again, and finds nothing left to change and no text to use up.
 *
 * @returns a function that throws `VALIDATION_ERROR`, `INVALID_ADDRESS`, `CONFLICT`, `USERNAME_TAKEN`,
 *   `RATE_LIMIT_EXCEEDED`, and for payout and username what {@link withStoreProof} throws
 */
export function profileChanger(api: Api): ChangeProfile {
  const lastOf = new Map<StoreId, Promise<unknown>>()

  return (store, body) => {
    if (body.payout === undefined && body.username === undefined) return change(api, store, body)
    const before = lastOf.get(store.id)
    const run = async () => {
      await before?.catch(() => undefined)
      return change(api, (await api.stores.find(store.id)) ?? gone(), body)
    }
    const running = run().finally(() => lastOf.get(store.id) === running && lastOf.delete(store.id))
    lastOf.set(store.id, running)
    return running
  }
}

async function change(api: Api, store: Store, body: ProfileBody): Promise<Store> {
  refuseLooseProofs(body)
  const { payout, payoutProof, username, usernameProof } = body
  const renamed = username === undefined ? undefined : readRename(api, store, username)
  const fields: StorePatch = {
    ...readFields(store, body),
    ...(renamed !== undefined && { username: renamed }),
  }
  const moved = payout === undefined ? undefined : readPayoutChange(api, store, payout)
  if (fields.displayName !== undefined && fields.displayName !== store.displayName)
    await takeChange(api, store, 'display name', DISPLAY_NAMES_PER_HOUR)
  const make = async () => {
    if (moved === undefined)
      return Object.keys(fields).length === 0 ? store : ((await save(api, store, fields)) ?? gone())
    await refuseUnpayable(api, store, moved)
    const statement = payoutStatement(store, moved)
    const signers = await payoutSigners(api, store, moved)
    return withStoreProof(api, { field: 'payout', statement, signers }, payoutProof, () =>
      movePayout(api, store, fields, moved),
    )
  }
  if (renamed === undefined || !(await needsSignature(api, store))) return make()
  return withStoreProof(api, await signedRename(api, store, renamed), usernameProof, make)
}

/** @throws `VALIDATION_ERROR` for a proof of a change that is not asked for */
function refuseLooseProofs(body: ProfileBody): void {
  for (const field of ['payout', 'username'] as const) {
    const path = `${field}Proof` as const
    if (body[path] === undefined || body[field] !== undefined) continue
    const message = `This belongs to a change of ${field}; send the ${field} that it is the proof of.`
    throw validationError([{ path, code: 'conflict', message }])
  }
}

async function movePayout(api: Api, store: Store, fields: StorePatch, moved: PayoutChange): Promise<Store> {
  if (chainsChange(store, moved)) await takeChange(api, store, 'payout chains', PAYOUT_CHAINS_PER_HOUR)
  const saved = await save(api, store, { ...fields, payout: moved.to }, moved)
  if (saved === undefined) {
    throw new TollgateError(
      'CONFLICT',
      'The payout was changed meanwhile; read the profile and decide again.',
    )
  }
  api.log.info(
    { storeId: store.id, ...moved },
    'the payout wallets of a store were changed, signed by its wallet',
  )
  return saved
}

const chainsChange = ({ payout }: Store, { to }: PayoutChange): boolean =>
  (['base', 'solana'] as const).some(
    (chain) => to[chain] !== undefined && (to[chain] === null) !== (payout[chain] === null),
  )

/** Counts a change that a store makes so many times an hour at most. @throws `RATE_LIMIT_EXCEEDED` */
export async function takeChange(api: Api, { id }: Store, what: string, limit: number): Promise<void> {
  const taken = await api.counters.take(`${what}:${id}`, 1, limit, hourMs)
  if (taken.ok) return
  const retryAfterSeconds = Math.max(1, Math.ceil((taken.resetAtMs - api.clock.now()) / 1000))
  throw new TollgateError(
    'RATE_LIMIT_EXCEEDED',
    `A store changes its ${what} ${limit} times an hour at most. Try again in ${retryAfterSeconds} s.`,
    { retryAfterSeconds },
  )
}

async function save(
  api: Api,
  store: Store,
  patch: StorePatch,
  moved?: PayoutChange,
): Promise<Store | undefined> {
  const saved = await api.stores.update(store.id, patch, api.clock.now(), {
    maxRenamesADay: api.maxRenamesPerDay,
    ...(moved && { payoutWas: moved.from }),
  })
  if (saved === undefined) return
  for (const username of new Set([store.username, saved.username])) {
    api.announce({ kind: 'store', username })
  }
  return saved
}

/** Changes what a store shows, by its owner. @throws `UNAUTHORIZED` when it is gone */
export const changeStore = async (
  api: Api,
  store: Store,
  patch: Pick<StorePatch, 'avatarUrl' | 'socials'>,
): Promise<Store> => (await save(api, store, patch)) ?? gone()

/** What needs no signature; null clears. */
function readFields(store: Store, body: ProfileBody): StorePatch {
  const { username, displayName, bio, avatarUrl, developerModeEnabled } = body
  return {
    ...(displayName !== undefined && { displayName: displayName ?? username ?? store.username }),
    ...(bio !== undefined && { bio: bio ?? '' }),
    ...(avatarUrl !== undefined && { avatarUrl: avatarUrl ?? '' }),
    ...(developerModeEnabled !== undefined && { developerModeEnabled }),
  }
}

/** A paid link that nobody can be paid for would answer buyers with an offer of nothing. @throws `CONFLICT` */
export async function refuseUnpayable(api: Api, store: Store, { to }: PayoutChange): Promise<void> {
  if (canBePaid(api, { ...store.payout, ...to }) || !canBePaid(api, store.payout)) return
  const { links } = await api.links.page(store.id, { isPaid: true, limit: 1 })
  if (links.length === 0) return
  throw new TollgateError(
    'CONFLICT',
    'The paid links of the store need a payout wallet. Make them free or delete them first, or name another wallet.',
  )
}

function gone(): never {
  throw new TollgateError('UNAUTHORIZED', 'The store of this API key is gone.')
}
