import type { StoreId } from '../../core/domain/link.ts'
import type { Store } from '../../core/domain/store.ts'
import { TollgateError } from '../../core/errors/error.ts'
import type { StorePatch } from '../../core/ports/store/stores.ts'
import type { Api } from '../deps.ts'
import { HOUR_MS } from '../http/callers.ts'
import { bodyField, fromResponses, type Infer } from '../http/fields.ts'
import { validationError } from '../http/validation.ts'
import {
  canBePaid,
  type PayoutChange,
  payoutSigners,
  payoutStatement,
  readPayoutChange,
  type SignedChange,
  type Signer,
  signInWallets,
  withStoreProof,
} from './signedChanges.ts'
import { reservedUsername } from './username.ts'

const payoutWallet = { type: ['string', 'null'], minLength: 1, maxLength: 128 } as const

export const payoutField = {
  type: 'object',
  additionalProperties: false,
  description:
    'The wallets that buyers pay. If a chain is omitted, its wallet does not change. null removes the wallet of a chain.',
  properties: { base: payoutWallet, solana: payoutWallet, ...fromResponses('changedAt', 'warnings') },
} as const

export const usernameNonceField = {
  ...bodyField.username,
  description: 'The new username of the store.',
} as const

const proofField = (when: string, field: 'payout' | 'username') =>
  ({
    type: 'object',
    additionalProperties: false,
    required: ['message', 'signature'],
    description: `${when}. The exact message from POST /api/v1/profile/${field}/nonce, and its signature by the wallet of the store.`,
    properties: { message: bodyField.signedText, signature: bodyField.signature },
  }) as const

/** The body of `PATCH /api/v1/profile`. Null clears a field. */
export const profileBody = {
  type: 'object',
  additionalProperties: false,
  properties: {
    username: {
      ...bodyField.username,
      description:
        'The username of the store. The former username redirects for 30 days. If the store has sold something, a rename needs usernameProof, and all former usernames stay reserved for 30 days. Otherwise, only the last former username stays reserved. A store can be renamed twice in 24 hours, unless the operator sets another limit.',
    },
    displayName: { ...bodyField.displayName, type: ['string', 'null'] },
    bio: bodyField.bio,
    avatarUrl: bodyField.httpUrl,
    developerModeEnabled: {
      type: 'boolean',
      description:
        'Whether the dashboard shows API keys and webhooks. API keys and this API work in either case.',
    },
    payout: payoutField,
    payoutProof: proofField('Required to change payout', 'payout'),
    usernameProof: proofField('Required to change the username of a store that has sold', 'username'),
    ...fromResponses('userId', 'createdBy', 'createdAt', 'updatedAt', 'socials'),
  },
} as const

export type ProfileBody = Infer<typeof profileBody>

/**
 * Reads the sent username.
 *
 * @returns undefined if it is the current one
 * @throws `VALIDATION_ERROR` for a reserved name
 */
export function readRename(api: Api, store: Store, username: string): string | undefined {
  if (username === store.username) return undefined
  if (api.isReservedUsername(username)) throw reservedUsername()
  return username
}

/**
 * Whether a rename needs the signature of the store's wallet. It does if the store has sold something, because buyers then know the
 * store's name.
 */
const needsSignature = (api: Api, { id }: Store): Promise<boolean> => api.stores.hasSold(id)

/** The rename as the store's wallet signs it. @throws `FORBIDDEN` if no wallet can sign */
export const signedRename = async (api: Api, store: Store, username: string): Promise<SignedChange> => ({
  field: 'username',
  statement: `Rename the store @${store.username} to @${username}. The links of the store move to the new name, and the old name redirects there for 30 days. Signing costs nothing.`,
  signers: await renameSigners(api, store),
})

/** The wallets that sign in to the store. For a store that the operator opened, these are its payout wallets. */
async function renameSigners(api: Api, store: Store): Promise<readonly Signer[]> {
  const signIn = await signInWallets(api, store)
  if (signIn.length > 0) return signIn
  const { base, solana } = store.payout
  const paid: Signer[] = []
  if (base !== null) paid.push({ chain: 'base', address: base })
  if (solana !== null) paid.push({ chain: 'solana', address: solana })
  if (paid.length > 0) return paid
  throw new TollgateError(
    'FORBIDDEN',
    `No wallet can sign this change, because your store has neither a sign-in wallet nor a payout wallet. Ask the operator to set one with: tollgate store payout ${store.username} --base ADDRESS.`,
  )
}

/**
 * Maximum number of changes per hour of a store's display name. Each change lists all of the store's links again. For a thousand
 * links, this blocks all other writes, including payments, for a fifth of a second.
 */
const DISPLAY_NAMES_PER_HOUR = 10
/**
 * How often per hour payout wallets can be added or removed. The limit is needed because every listed link records on which chains
 * its store is paid.
 */
const PAYOUT_CHAINS_PER_HOUR = 10

type ChangeProfile = (store: Store, body: ProfileBody) => Promise<Store>

/**
 * Creates the function that applies an owner's change of a store. Changes that a wallet signs run one after the other per store. So
 * if a client repeats a request that got no response, the repeated request finds nothing to change and uses up no signed text.
 *
 * @returns a function that throws `VALIDATION_ERROR`, `INVALID_ADDRESS`, `CONFLICT`, `USERNAME_TAKEN`, `RATE_LIMIT_EXCEEDED`, and
 * for payout and username what {@link withStoreProof} throws
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

/** @throws `VALIDATION_ERROR` for a proof without its change */
function refuseLooseProofs(body: ProfileBody): void {
  for (const field of ['payout', 'username'] as const) {
    const path = `${field}Proof` as const
    if (body[path] === undefined || body[field] !== undefined) continue
    const message = `Expected a change of ${field} together with its proof. Send the ${field} too.`
    throw validationError([{ path, code: 'conflict', message }])
  }
}

async function movePayout(api: Api, store: Store, fields: StorePatch, moved: PayoutChange): Promise<Store> {
  if (chainsChange(store, moved)) await takeChange(api, store, 'payout chains', PAYOUT_CHAINS_PER_HOUR)
  const saved = await save(api, store, { ...fields, payout: moved.to }, moved)
  if (saved === undefined) {
    throw new TollgateError(
      'CONFLICT',
      'The payout was changed by another request. Read the profile and try again.',
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

/** Counts a change of a store against an hourly limit. @throws `RATE_LIMIT_EXCEEDED` */
export async function takeChange(api: Api, { id }: Store, what: string, limit: number): Promise<void> {
  const taken = await api.counters.take(`${what}:${id}`, 1, limit, HOUR_MS)
  if (taken.ok) return
  const retryAfterSeconds = Math.max(1, Math.ceil((taken.resetAtMs - api.clock.now()) / 1000))
  throw new TollgateError(
    'RATE_LIMIT_EXCEEDED',
    `A store can change its ${what} at most ${limit} times an hour. Try again in ${retryAfterSeconds} s.`,
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

/** Saves an owner's change of a store. @throws `UNAUTHORIZED` if the store no longer exists */
export const changeStore = async (
  api: Api,
  store: Store,
  patch: Pick<StorePatch, 'avatarUrl' | 'socials'>,
): Promise<Store> => (await save(api, store, patch)) ?? gone()

/** Reads the fields that need no signature. Null clears a field. */
function readFields(store: Store, body: ProfileBody): StorePatch {
  const { username, displayName, bio, avatarUrl, developerModeEnabled } = body
  return {
    ...(displayName !== undefined && { displayName: displayName ?? username ?? store.username }),
    ...(bio !== undefined && { bio: bio ?? '' }),
    ...(avatarUrl !== undefined && { avatarUrl: avatarUrl ?? '' }),
    ...(developerModeEnabled !== undefined && { developerModeEnabled }),
  }
}

/**
 * Refuses to remove the last payout wallet while the store has paid links, because they would then offer buyers no payment method.
 * @throws `CONFLICT`
 */
export async function refuseUnpayable(api: Api, store: Store, { to }: PayoutChange): Promise<void> {
  if (canBePaid(api, { ...store.payout, ...to }) || !canBePaid(api, store.payout)) return
  const { links } = await api.links.page(store.id, { isPaid: true, limit: 1 })
  if (links.length === 0) return
  throw new TollgateError(
    'CONFLICT',
    'The store has paid links, which need a payout wallet. Set another wallet, or first make these links free or delete them.',
  )
}

function gone(): never {
  throw new TollgateError('UNAUTHORIZED', 'The store of this API key no longer exists.')
}
