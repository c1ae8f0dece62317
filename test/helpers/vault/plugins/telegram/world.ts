import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import type { Test } from 'tap'
import { createEgress } from '../../../../../adapters/egress/egress.ts'
import type { Log } from '../../../../../core/ports/log.ts'
import telegram from '../../../../../vault/plugins/telegram/index.ts'
import { builtInPlugin } from '../../../../../vault/sandbox/findPlugin.ts'
import { createTestClock, type RunningVault, startVault } from '../../startVault.ts'
import { signBody } from '../../transfers.ts'
import { type BotApi, ownerId, startBotApi, token } from './botApi.ts'

export type Options = Parameters<typeof telegram.setup>[0]

/** What the loader makes of a minimal configuration. */
export const optionsFor = (api: Pick<BotApi, 'url'>, change: Partial<Options> = {}): Options => ({
  botToken: token,
  chatId: ownerId,
  userIds: [],
  lockNotices: true,
  apiRoot: api.url,
  pollSeconds: 25,
  timeoutMs: 10_000,
  retryMinMs: 1,
  retryMaxMs: 20,
  ...change,
})

interface World {
  readonly api: BotApi
  vault: RunningVault
  /** All log lines, as one text. */
  logged(): string
  /** An agent requests a signature and waits; the response comes when the owner has decided. */
  ask(nonce?: number, headers?: Record<string, string>): ReturnType<RunningVault['call']>
  /** The same, once its approval is in the chat. */
  requests(nonce?: number): Promise<{ response: ReturnType<RunningVault['call']>; id: string }>
  restart(options?: { withoutChat?: boolean }): Promise<void>
  readonly clock: ReturnType<typeof createTestClock>
}

/** A vault and a process of the channel for each test. */
export async function startWorld(t: Test, change: Partial<Options> = {}, api?: BotApi): Promise<World> {
  const bot = api ?? (await startBotApi(t))
  const lines: unknown[] = []
  const note = (fields: unknown, text?: unknown) => void lines.push([fields, text])
  const log = { debug: note, info: note, warn: note, error: note } as unknown as Log
  const clock = createTestClock()
  // Short: the path of the owner's socket is in it.
  const home = join(mkdtempSync(join(tmpdir(), 'tg-')), 'home')
  t.teardown(() => rmSync(dirname(home), { recursive: true, force: true }))
  const start = async (withoutChat = false) => {
    const egress = createEgress({ allowPrivateCidrs: ['127.0.0.0/8'] })
    const plugins = withoutChat ? [] : [{ plugin: builtInPlugin(telegram), options: optionsFor(bot, change) }]
    const vault = await startVault(t, { home, clock, log, plugins, egress: () => egress })
    t.teardown(() => egress.close())
    return vault
  }
  let bearer = ''
  const world: World = {
    api: bot,
    clock,
    vault: await start(),
    logged: () => lines.map((line) => JSON.stringify(line)).join('\n'),
    ask: (nonce = 0, headers = { prefer: 'wait=100' }) =>
      world.vault.call('POST', '/v1/vault/sign', signBody('3', nonce), {
        authorization: `Bearer ${bearer}`,
        ...headers,
      }),
    async requests(nonce = 0) {
      const before = bot.messages.length
      const response = world.ask(nonce)
      await bot.until(() => bot.messages.length > before)
      return { response, id: (await openIds(world)).at(0)! }
    },
    async restart({ withoutChat = false } = {}) {
      await world.vault.close()
      world.vault = await start(withoutChat)
    },
  }
  bearer = (await world.vault.agent('shopper', ['wallet.base'])).token
  return world
}

export const openIds = async ({ vault }: World): Promise<string[]> => {
  const { body } = await vault.asOwner('GET', '/v1/vault/approvals?status=pending')
  return body.approvals.map(({ id }: { id: string }) => id)
}

/** Closes the vault and searches everything that was written for the token. */
export async function endedCleanly(t: Test, { vault, logged }: World): Promise<void> {
  await vault.close()
  t.notMatch(logged(), token.slice(-20), 'the token is in no log')
  t.notMatch(logged(), '"error"', 'nothing unexpected was thrown')
}
