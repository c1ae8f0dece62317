import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { ask, createVaultBox } from '../../test/helpers/cli/vault/vaultProcess.ts'
import { ownerId, startBotApi, token } from '../../test/helpers/vault/plugins/telegram/botApi.ts'

t.test('a vault of the command line asks in the chat that its configuration names', async (t) => {
  const api = await startBotApi(t)
  const box = createVaultBox(t)
  await box.json(['init', ...box.withPassword])
  const write = (name: string, text: string) => writeFileSync(join(box.home, name), text, { mode: 0o600 })
  write('bot-token', `${token}\n`)
  write(
    'vault.yaml',
    `pluginEgress:
  allowPrivateCidrs: [127.0.0.1/32]
plugins:
  - use: telegram
    with:
      botTokenFile: ./bot-token
      chatId: ${ownerId}
      apiRoot: ${api.url}
`,
  )
  const { token: bearer } = await box.json([
    'agents',
    'add',
    'bot',
    '--scopes',
    'wallet.base',
    ...box.withPassword,
  ])
  const vault = await box.serve()
  const body = { chain: 'base', message: 'hello', agent_name: 'bot' }
  const pendingApproval = await ask(vault.url, bearer, '/v1/vault/sign-message', body)
  t.equal(pendingApproval?.status, 202)
  await api.until(() => api.messages.length === 1)
  t.match(api.messages[0]!.text, 'hello')
  t.equal(await api.answered(api.press('Approve')), 'Approved.')
  const signed = await ask(vault.url, bearer, '/v1/vault/sign-message', body)
  t.match([signed?.status, signed?.body.signature], [200, /^0x/])
  await api.until(() => api.messages[0]!.text.includes('Approved and done'))
  t.equal(await vault.stop(), 0, 'it stops while it listens')
})
