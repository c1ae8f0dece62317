import { createHash, randomBytes } from 'node:crypto'
import { encodeMessage, type Message } from '../channel/message.ts'
import { commitmentTo, pairingPhrase } from '../channel/statements.ts'
import { createKeyPair, toStored } from '../channel/suite.ts'
import { VaultError } from '../errors/error.ts'
import {
  formatPairToken,
  type PairToken,
  preSharedOf,
  tokenHeaderKey,
  tokenRecordOf,
} from '../remote/pairToken.ts'
import { type AgentEnd, NoResponse, Notice } from './agentEnd.ts'
import type { ProxyState, ProxyStateFile } from './proxyState.ts'
import { assertOk, ownChannelOf, unreached } from './vaultClient.ts'

/** How long the proxy waits for the vault's first response, in ms. The owner may have to start the vault first. */
const REACH_MS = 10 * 60_000
/**
 * How long the proxy waits for another response, in ms. The vault reports earlier than this that it still waits for the owner.
 */
const ANSWER_MS = 45_000

/** The initial state of a proxy with a new token. */
export function newPairing(
  token: PairToken,
  names: { readonly vaultId: string; readonly serviceId: string; readonly hpkeKey: string },
): ProxyState {
  return {
    version: 1,
    vaultId: names.vaultId,
    serviceId: names.serviceId,
    route: token.route.toString('base64'),
    givenKey: names.hpkeKey,
    hpkeKey: names.hpkeKey,
    generation: 0,
    staticKey: toStored(createKeyPair('X25519')),
    nonce: randomBytes(32).toString('base64'),
    tokenHash: tokenHashOf(token),
    isPaired: false,
  }
}

/** Identifies a token by its hash, so that the token itself is not stored. */
export const tokenHashOf = (token: PairToken): string =>
  createHash('sha256').update(formatPairToken(token)).digest('base64')

/**
 * Pairs, or continues where a proxy was stopped. Each commitment is on disk before it is sent, so every step can be repeated
 * with the same result.
 *
 * @param token absent if an earlier run of the proxy has used it
 * @param onPhrase shows the four words, which the owner compares with those of the vault
 * @returns the state of a paired proxy, stored
 * @throws VaultError `PAIR_USED`, `PAIR_EXPIRED`, `APPROVAL_DENIED`, or why the vault could not be reached
 */
export async function pairWithVault(
  end: AgentEnd,
  pending: ProxyState,
  token: PairToken | undefined,
  file: ProxyStateFile,
  onPhrase: (phrase: string) => void,
): Promise<ProxyState> {
  try {
    const claimed = pending.vault ? pending : await claim(end, pending, token!, file)
    onPhrase(phraseOf(claimed))
    await confirmed(end, claimed)
    const paired = { ...claimed, isPaired: true }
    await file.write(paired)
    return paired
  } catch (error) {
    const code = (error as { code?: unknown }).code
    if (terminal.has(String(code))) await file.removePending()
    throw error
  }
}

/** Codes after which another attempt with the same token is useless. */
const terminal: ReadonlySet<string> = new Set([
  'PAIR_USED',
  'PAIR_EXPIRED',
  'APPROVAL_DENIED',
  'UNAUTHORIZED',
])

async function claim(
  end: AgentEnd,
  pending: ProxyState,
  token: PairToken,
  file: ProxyStateFile,
): Promise<ProxyState> {
  await file.write(pending)
  const record = tokenRecordOf(token)
  const { vaultId, serviceId } = pending
  const channel = { vaultId, serviceId, route: token.route, headerKey: tokenHeaderKey(record, token.route) }
  const commitment = commitmentTo(Buffer.from(pending.nonce, 'base64')).toString('base64')
  const head = await ask(end, () =>
    end.send({
      kind: 'begin',
      content: encodeMessage({ token: formatPairToken(token), commitment }),
      to: Buffer.from(pending.hpkeKey, 'base64'),
      channel,
      psk: preSharedOf(record, token.route),
      waitMs: ANSWER_MS,
    }),
  )
  const [signingKey, headerKey, vaultNonce] = ['signingKey', 'headerKey', 'vaultNonce'].map((name) =>
    String(head[name]),
  )
  const claimed = {
    ...pending,
    vault: { signingKey: signingKey!, headerKey: headerKey!, vaultNonce: vaultNonce! },
  }
  await file.write(claimed)
  return claimed
}

/** Polls until the owner has decided. */
async function confirmed(end: AgentEnd, claimed: ProxyState): Promise<void> {
  const channel = ownChannelOf(claimed)
  const finish = () =>
    end.send({
      kind: 'finish',
      content: encodeMessage({ nonce: claimed.nonce }),
      to: Buffer.from(claimed.hpkeKey, 'base64'),
      channel,
      waitMs: ANSWER_MS,
    })
  while ((await ask(end, finish))['state'] !== 'paired');
}

/**
 * Sends a pairing message. If the vault's clock differed or the vault was restarted, sends it once more. Every pairing message
 * may be repeated.
 */
async function ask(end: AgentEnd, send: () => Promise<Message>): Promise<Message['head']> {
  for (let left = 3; ; left--) {
    if (!(await end.untilReached(REACH_MS))) throw unreached(end.reach)
    try {
      const { head } = await send()
      assertOk(head)
      return head
    } catch (error) {
      if (error instanceof Notice && error.kind === 'unopened')
        throw new VaultError(
          'VALIDATION_ERROR',
          'The vault cannot decrypt the messages of this proxy. Check --hpke-key, --vault and --service-id.',
        )
      if (error instanceof Notice && error.kind === 'revoked')
        throw new VaultError(
          'UNAUTHORIZED',
          'The owner revoked this pairing. Ask the owner for a new pair token.',
        )
      const mayRepeat = error instanceof NoResponse || error instanceof Notice
      if (!mayRepeat) throw error
      if (left > 1) continue
      throw error instanceof NoResponse
        ? unreached(end.reach === 'nowhere' ? 'nowhere' : 'relay')
        : new VaultError('VAULT_UNREACHABLE', error.message)
    }
  }
}

function phraseOf(claimed: ProxyState): string {
  const { vaultId, serviceId, route, givenKey, nonce, staticKey, vault } = claimed
  return pairingPhrase({
    vaultId,
    serviceId,
    route: Buffer.from(route, 'base64'),
    vaultKey: Buffer.from(givenKey, 'base64'),
    signingKey: Buffer.from(vault!.signingKey, 'base64'),
    proxyKey: Buffer.from(staticKey.publicKey, 'base64'),
    proxyNonce: Buffer.from(nonce, 'base64'),
    vaultNonce: Buffer.from(vault!.vaultNonce, 'base64'),
  })
}
