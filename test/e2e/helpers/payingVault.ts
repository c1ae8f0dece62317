import { join } from 'node:path'
import type { Test } from 'tap'
import { type OwnerClient, openOwnerClient } from '../../../cli/vault/ownerClient.ts'
import type { ApprovalView } from '../../../vault/approvals/approval.ts'
import {
  ask,
  createVaultBox,
  type RunningProcess,
  type VaultBox,
} from '../../helpers/cli/vault/vaultProcess.ts'
import type { Chain, Chains } from './chains.ts'
import { type Child, runTollgate } from './child.ts'
import { eventually } from './eventually.ts'

/** What the policy of the tests pays without asking, refuses, and allows in a day, in USDC. */
export const rules = { autoApproveUpTo: '0.05', perTransaction: '1', perDay: '3' } as const

interface VaultPayOptions {
  readonly vault?: string
  readonly token?: string
  /** Further flags of `tollgate pay`. */
  readonly flags?: readonly string[]
}

/** A vault of its own process with money on both local chains, and one agent that may buy with it. */
export interface PayingVault {
  readonly box: VaultBox
  readonly addresses: { readonly evm: string; readonly solana: string }
  readonly token: string
  /** Replaces the agent's rules. The policy of the tests and these fields. */
  setRules(more: object): Promise<unknown>
  /** Speaks on the owner's socket to whichever process is running. */
  readonly owner: OwnerClient
  /** The same address after every restart. */
  readonly url: string
  addressOn(chain: Chain): string
  /** kill -9; fulfilled when it is gone. */
  kill(): Promise<void>
  /** Starts it again on the same port. */
  start(): Promise<void>
  /** Runs `tollgate pay LINK --vault …` as a process of its own. */
  pay(link: string, chain: Chain, options?: VaultPayOptions): Child
  /** The first question that waits for the owner, as soon as there is one. */
  question(): Promise<ApprovalView>
  approve(question: ApprovalView): Promise<unknown>
  deny(question: ApprovalView): Promise<unknown>
  /** USDC of today in smallest units. */
  used(chain: Chain): Promise<{ readonly spent: bigint; readonly reserved: bigint }>
  /** Statuses of the log's entries about signing, oldest first. */
  signings(): Promise<string[]>
  /** Whether the log is whole. */
  verify(): Promise<boolean>
}

/** @param more further flags of `tollgate vault`, such as `--relay` */
export async function startPayingVault(
  t: Pick<Test, 'teardown'>,
  chains: Chains,
  more: readonly string[] = [],
): Promise<PayingVault> {
  const box = createVaultBox(t)
  // The local chains are test chains to the vault.
  const { test_addresses: addresses } = await box.json(['init', ...box.withPassword])
  await chains.evm.mintUsdc(addresses.evm, 10_000_000n)
  chains.solana.mintUsdc(addresses.solana, 10_000_000n)
  const flags = ['--testnets', '--solana-rpc', chains.solana.rpcUrl, ...more]
  let running: RunningProcess = await box.serve(flags)
  const { url } = running
  const { port } = new URL(url)
  const owner = await openOwnerClient({
    home: box.home,
    socketPath: join(box.home, 'owner.sock'),
    password: () => undefined,
  })
  const agent = {
    name: 'shopper',
    scopes: ['wallet.base-sepolia', 'wallet.solana-devnet'],
    requests_per_minute: 10_000,
  }
  const { id, token } = await owner.call<{ id: string; token: string }>('POST', '/v1/vault/agents', agent)
  const assets = ['base-sepolia', 'solana-devnet'].map((chain) => ({ chain, symbol: 'USDC', ...rules }))
  const setRules = (more: object) =>
    owner.call('PUT', `/v1/vault/policies/${id}`, { assets, recipients: 'any', ...more })
  await setRules({})

  return {
    box,
    addresses,
    token,
    setRules,
    owner,
    url,
    addressOn: (chain) => (chain.name === 'evm' ? addresses.evm : addresses.solana),
    kill: () => running.kill(),
    async start() {
      running = await box.serve([...flags, '--port', port])
    },
    pay(link, chain, options = {}) {
      const rpcUrl = chain.name === 'evm' ? chains.evm.rpcUrl : chains.solana.rpcUrl
      const from = ['--vault', options.vault ?? url, '--network', chain.network, '--rpc', rpcUrl]
      const known = options.vault === undefined ? token : options.token
      return runTollgate(t, ['pay', link, ...from, ...(options.flags ?? [])], {
        TOLLGATE_HOME: join(box.home, '..', 'buyer'),
        ...(known !== undefined && { TOLLGATE_VAULT_TOKEN: known }),
      })
    },
    question: () =>
      eventually(async () => {
        const path = '/v1/vault/approvals?status=pending'
        return (await owner.call<{ approvals: ApprovalView[] }>('GET', path)).approvals[0]
      }),
    approve: ({ id: approval, decision_hash }) =>
      owner.call('POST', `/v1/vault/approvals/${approval}/approve`, { decision_hash }),
    deny: ({ id: approval }) => owner.call('POST', `/v1/vault/approvals/${approval}/deny`, {}),
    async used(chain) {
      const lines = (await ask(url, token, '/v1/vault/budget'))?.body.budget as {
        asset: string
        spent: string
        reserved: string
      }[]
      const asset = chain.usdc.toLowerCase()
      const line = lines.find((one) => one.asset.toLowerCase().endsWith(asset))
      return { spent: BigInt(line?.spent ?? 0), reserved: BigInt(line?.reserved ?? 0) }
    },
    async signings() {
      const path = '/v1/vault/activity?action=SIGN&limit=500'
      const { events } = await owner.call<{ events: { status: string }[] }>('GET', path)
      return events.map(({ status }) => status).reverse()
    },
    verify: async () => (await owner.call<{ ok: boolean }>('GET', '/v1/vault/activity/verify')).ok,
  }
}

// biome-ignore lint/suspicious/noExplicitAny: tests look into reports of every shape
export async function reportOf(child: Child): Promise<any> {
  const { stdout, stderr } = await child.exited
  const lines = stdout.trimEnd().split('\n')
  if (lines.length !== 1 || stdout === '') throw new Error(`Expected one object, got:\n${stdout}${stderr}`)
  return JSON.parse(stdout)
}
