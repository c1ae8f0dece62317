import t from 'tap'
import { type RunningVault, startVault } from '../../test/helpers/vault/startVault.ts'
import { signBody } from '../../test/helpers/vault/transfers.ts'
import type { ApprovalView } from '../../vault/approvals/approval.ts'
import { createOutput } from '../output/createOutput.ts'
import { displayWidth } from '../output/table.ts'
import { approvalCard, approve, deny, listApprovals } from './approvalCommands.ts'
import { openOwnerClient } from './ownerClient.ts'
import { listActivity } from './stateCommands.ts'

const noWait = { prefer: 'wait=0' }

/** A command as an owner or a script would run it; its output lands in `text`. */
async function sitting(vault: RunningVault, isTTY: boolean, responses: string[] = [], columns = 80) {
  const lines: string[] = []
  const stream = { isTTY, columns, write: (text: string) => lines.push(text) }
  const output = createOutput({ stdout: stream, stderr: stream, env: { NO_COLOR: '1' } })
  const client = await openOwnerClient({
    home: vault.home,
    socketPath: vault.socketPath,
    password: () => undefined,
  })
  const terminal = {
    columns,
    ask: async (question: string) => {
      lines.push(`${question}\n`)
      return responses.shift() ?? ''
    },
  }
  return {
    text: () => lines.join(''),
    left: responses,
    approve: (id: string, flags = {}) => approve(client, output, isTTY ? terminal : undefined, id, flags),
    deny: (id: string) => deny(client, output, id),
    list: () => listApprovals(client, output, false),
    activity: () => listActivity(client, output, new URLSearchParams({ action: 'SIGN' })),
  }
}

async function start(t: Parameters<typeof startVault>[0]) {
  const vault = await startVault(t)
  const agent = await vault.agent('asker', ['wallet.base', 'ask:write:identity.*'])
  const asked = async (path: string, body: object): Promise<ApprovalView> => {
    const { body: response } = await agent.call('POST', `/v1/vault/${path}`, body, noWait)
    return vault.api.approvals.get(response.approval_id, vault.owner)
  }
  const message = (text: string) => asked('sign-message', { chain: 'base', agent_name: 'x', message: text })
  const status = ({ id }: ApprovalView) => vault.api.approvals.get(id, vault.owner).status
  return { vault, pendingApproval: asked, message, status }
}

t.test('a person sees the whole card before the question, and only yes approves', async (t) => {
  const { vault, message, status } = await start(t)
  const card = await message(`${'line\n'.repeat(500)}the last line`)
  for (const response of ['', 'n', 'no', 'yep', 'n y']) {
    const person = await sitting(vault, true, [response])
    await t.rejects(person.approve(card.id), { message: 'Nothing was approved.' })
    t.equal(status(card), 'pending')
    const text = person.text()
    t.ok(text.indexOf('the last line') > 0 && text.indexOf('the last line') < text.indexOf('[y/N]'))
    t.ok(text.includes(card.decision_hash) && text.includes(card.parts[0]!.sha256))
  }
  const person = await sitting(vault, true, ['y'])
  await person.approve(card.id)
  t.equal(status(card), 'approved')
})

t.test('a script approves what it names by its hash, and nothing else', async (t) => {
  const { vault, message, status } = await start(t)
  const [card, other] = [await message('one'), await message('two')]
  const script = await sitting(vault, false)
  await t.rejects(script.approve(card.id), { code: 'USAGE', message: /--hash/ })
  await t.rejects(script.approve(card.id, { hash: other.decision_hash }), { code: 'USAGE' })
  await t.rejects(script.approve(card.id, { word: 'blind' }), { code: 'USAGE' })
  t.strictSame([status(card), script.text()], ['pending', ''])
  await script.approve(card.id, { hash: card.decision_hash })
  t.equal(status(card), 'approved')
  t.match(JSON.parse(script.text()), { id: card.id, status: 'approved' })
  await t.rejects(script.approve(card.id, { hash: card.decision_hash }), { code: 'APPROVAL_RESOLVED' })
  await script.deny(other.id)
  t.equal(status(other), 'denied')
})

t.test('the second word is typed, or given; anything else approves nothing', async (t) => {
  const { vault, pendingApproval, status } = await start(t)
  const card = await pendingApproval('write', { scope: 'identity.name', value: '\u0007'.repeat(20_000) })
  t.equal(card.second_word, 'unread')
  const script = await sitting(vault, false)
  const hash = card.decision_hash
  await t.rejects(script.approve(card.id, { hash }), { code: 'USAGE', message: /--word unread/ })
  await t.rejects(script.approve(card.id, { hash, word: 'blind' }), { code: 'VALIDATION_ERROR' })
  for (const typed of ['y', '', 'blind']) {
    const person = await sitting(vault, true, [typed])
    await t.rejects(person.approve(card.id), { message: 'Nothing was approved.' })
    t.match(person.text(), /NOT SHOWN IN FULL[\s\S]*type unread: /)
  }
  t.equal(status(card), 'pending')
  const person = await sitting(vault, true, ['unread'])
  await person.approve(card.id)
  t.equal(status(card), 'approved')
})

t.test('no line of a text can be taken for one of the card, at any width', async (t) => {
  const { message } = await start(t)
  const forged = `Decision hash:\n  ${'0'.repeat(64)}\n${' '.repeat(76)}Approval: apr_other ${'\u001b[2J\u202e'}${'天'.repeat(50)}`
  const card = await message(forged)
  for (const columns of [20, 40, 80, 200]) {
    const lines = approvalCard(card, columns).split('\n')
    t.equal(lines.filter((line) => line.startsWith('Decision hash:')).length, 1)
    t.equal(lines.filter((line) => line.startsWith('Approval: ')).length, 1)
    t.notMatch(lines.join(''), /[\p{Cc}\p{Cf}]/u)
    const part = lines.filter((line) => line.startsWith('  │ '))
    t.ok(part.every((line) => displayWidth(line) <= Math.max(24, columns)))
    t.ok(
      part
        .map((line) => line.slice(4))
        .join('')
        .includes('天'.repeat(5)),
    )
  }
})

t.test('what decides stands last, below however long a text, and a gap in a text is one line', async (t) => {
  const { message } = await start(t)
  const gap = '\n'.repeat(1_001)
  const card = await message(
    `Hello.${gap}Sell the house.${gap}${'line\n'.repeat(500)}Bye.${' '.repeat(4_000)}\u0430bc ┆ 3 empty lines`,
  )
  for (const columns of [40, 80]) {
    const lines = approvalCard(card, columns).split('\n')
    const said = lines.filter((line) => line.startsWith('  ┆ '))
    t.strictSame(said, ['  ┆ 1,000 empty lines', '  ┆ 1,000 empty lines', '  ┆ 4,000 spaces'])
    const end = lines.slice(lines.findLastIndex((line) => line.startsWith('  │ ')) + 1)
    t.equal(end[0], 'asker asks to sign a message.')
    for (const words of [
      /continues after 1,000/,
      /only look Latin/,
      /Sign a text of [\d,]+ characters in [\d,]+ lines/,
      /Chain: base/,
    ])
      t.match(end.join('\n').replace(/\s+/g, ' '), words)
    t.ok(end.length < 24, 'on one screen')
  }
  const read = approvalCard({ ...card, parts: [] }, 80)
  t.equal(read.split('asks to').length, 2, 'and is said once where nothing long is above it')
})

t.test('the list cuts neither an id nor a hash nor what would happen', async (t) => {
  const { vault, message } = await start(t)
  const card = await message(`${'long '.repeat(60)}end of it`)
  for (const columns of [40, 80, 120, 200]) {
    const person = await sitting(vault, true, [], columns)
    await person.list()
    const flat = person.text().replaceAll(/\s+/g, ' ')
    t.ok(flat.includes(card.id), `${columns}`)
    t.notMatch(person.text(), /…/)
    t.match(flat, /Sign a text of 309 characters/)
    t.ok(
      person
        .text()
        .split('\n')
        .every((line) => displayWidth(line) <= columns),
    )
  }
  const script = await sitting(vault, false)
  await script.list()
  t.match(JSON.parse(script.text()), {
    id: card.id,
    decision_hash: card.decision_hash,
    parts: [{ whole: true }],
  })
})

t.test('activity tells of a refused lie what was claimed and what was found, uncut', async (t) => {
  const { vault } = await start(t)
  const liar = await vault.agent('liar', ['wallet.base'])
  await liar.call('POST', '/v1/vault/sign', { ...signBody('0.5'), amount: 0.4 }, noWait)
  const person = await sitting(vault, true, [], 60)
  await person.activity()
  const flat = person.text().replaceAll(/\s+/g, ' ')
  t.match(flat, /TX_MISMATCH\. Found: Send 0\.5 USDC/)
  const script = await sitting(vault, false)
  await script.activity()
  t.match(JSON.parse(script.text()), { claimed: /0\.4/, found: /0\.5/, details: { code: 'TX_MISMATCH' } })
})
