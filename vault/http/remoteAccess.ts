import type { Clock } from '../../core/ports/clock.ts'
import type { Log } from '../../core/ports/log.ts'
import { VaultError } from '../errors/error.ts'
import type { VaultApi } from '../host/vaultApi.ts'
import type { Pairings } from '../ports/pairings.ts'
import type { Records } from '../ports/records.ts'
import type { Vault } from '../ports/vault.ts'
import { type Connector, startConnector } from '../remote/connector.ts'
import { createVaultIdentity, rotateVaultIdentity, type VaultIdentity } from '../remote/identity.ts'
import type { PairingQuestion } from '../remote/pairingDesk.ts'
import type { PairingRecord, PairingStore } from '../remote/pairingRecord.ts'
import type { RemoteAnswer, RemoteRequest } from '../remote/remoteRequest.ts'
import { createDispatch, type Dispatch } from './dispatch.ts'
import { requestIdOf } from './incoming.ts'
import { bodyText } from './readBody.ts'

export interface RemoteAccessOptions {
  readonly vault: Vault
  /** `wss://…` */
  readonly relay: string
  /** PEM of the relay's certificate authority, where it has one of its own. */
  readonly ca?: string
  readonly clock: Clock
  readonly log: Log
}

/**
 * The way for paired remote agents. Its keys and pairings are in the vault's records, so it is up while the vault is
 * open and down while it is locked.
 */
export interface RemoteAccess {
  readonly pairings: Pairings
  /** Begins to serve; called once the API is there. */
  attach(api: VaultApi): Promise<void>
  close(): Promise<void>
}

const OFFER_TTL_MS = 15 * 60_000
const identityId = 'remote-identity'

export function createRemoteAccess({ vault, relay, ca, clock, log }: RemoteAccessOptions): RemoteAccess {
  const questions = new Map<string, { phrase: string; answer: (isSame: boolean) => void }>()
  let connector: Connector | undefined
  let dispatch: Dispatch | undefined
  let api: VaultApi | undefined
  let stopWatching = (): void => {}
  let rotation: Promise<unknown> = Promise.resolve()
  // Starting and stopping take turns: an unlock right after a lock must find the old connector gone.
  let turn: Promise<void> = Promise.resolve()
  const inTurn = (work: () => Promise<void>): Promise<void> => {
    turn = turn.then(work).catch((err: unknown) => log.error({ err }, 'the way for remote agents failed'))
    return turn
  }
  const start = () =>
    inTurn(async () => {
      if (connector !== undefined || vault.state.locked) return
      connector = await startConnector({
        identity: await identityOf(vault, clock),
        relay,
        store: storeOf(vault.records),
        handle,
        confirm,
        ...(ca !== undefined && { ca }),
        clock,
        log,
      })
    })
  const stop = () =>
    inTurn(async () => {
      await connector?.close()
      connector = undefined
    })

  async function handle({
    agentId,
    method,
    path,
    headers,
    body,
    signal,
  }: RemoteRequest): Promise<RemoteAnswer> {
    const agent = api?.agentOf(agentId)
    if (dispatch === undefined || agent === undefined || agent.revokedAt !== null)
      throw new VaultError('UNAUTHORIZED')
    return dispatch({
      method,
      target: path,
      headers,
      body: bodyText(body),
      caller: { kind: 'agent', agent, via: 'relay' },
      requestId: requestIdOf({ headers }),
      signal,
    })
  }

  function confirm({ pairing, phrase, signal }: PairingQuestion): Promise<boolean> {
    return new Promise((resolve) => {
      const answer = (isSame: boolean) => {
        questions.delete(pairing.id)
        resolve(isSame)
      }
      questions.set(pairing.id, { phrase, answer })
      signal.addEventListener('abort', () => answer(false), { once: true })
    })
  }
  function connected(): Connector {
    if (connector === undefined) throw new VaultError('VAULT_LOCKED')
    return connector
  }

  return {
    pairings: {
      list: () =>
        connected()
          .pairings()
          .map((pairing) => ({
            id: pairing.id,
            agent_id: pairing.agentId,
            service_id: pairing.serviceId,
            state: pairing.state,
            created_at: new Date(pairing.createdAtMs).toISOString(),
            expires_at: new Date(pairing.expiresAtMs).toISOString(),
            phrase: questions.get(pairing.id)?.phrase ?? null,
          })),
      async create({ serviceId, agentId }) {
        const offer = await connected().createPairing({ serviceId, agentId, ttlMs: OFFER_TTL_MS })
        return {
          id: offer.pairing.id,
          token: offer.token,
          command: offer.command,
          expires_at: new Date(offer.pairing.expiresAtMs).toISOString(),
        }
      },
      async confirm(id, isSame) {
        const question = questions.get(id)
        if (question === undefined) throw new VaultError('NOT_FOUND', 'Nobody asks about this pairing now.')
        question.answer(isSame)
      },
      async resume(id) {
        await connected().resume(id)
      },
      rotateKey() {
        // One after the other: each key follows the one that is stored.
        const next = rotation.then(async () => {
          const used = connected()
          const identity = rotateVaultIdentity(await identityOf(vault, clock), clock.now())
          await vault.records.putJson('state', identityId, identity)
          used.useIdentity(identity)
          return identity.keys[0]!.generation
        })
        rotation = next.catch(() => undefined)
        return next
      },
      async revoke(id) {
        await connected().revoke(id)
      },
    },
    async attach(served) {
      api = served
      dispatch = createDispatch(served, log)
      stopWatching = served.watch(
        { caller: { kind: 'owner', via: 'socket' }, requestId: 'remote' },
        (event) => {
          if (event.type === 'unlocked') void start()
          if (event.type === 'locked') void stop()
        },
      )
      await start()
    },
    async close() {
      stopWatching()
      await stop()
    },
  }
}

async function identityOf({ records, vaultId }: Vault, clock: Clock): Promise<VaultIdentity> {
  const stored = records.getJson<VaultIdentity>('state', identityId)
  if (stored !== undefined) return stored
  const identity = createVaultIdentity(vaultId, clock.now())
  await records.putJson('state', identityId, identity)
  return identity
}

const storeOf = (records: Records): PairingStore => ({
  list: async () =>
    records
      .list('pairing')
      .map(({ id }) => records.getJson<PairingRecord>('pairing', id))
      .filter((record) => record !== undefined),
  put: async (record) => void (await records.putJson('pairing', record.id, record)),
  delete: async (id) => void (await records.delete('pairing', id)),
})
