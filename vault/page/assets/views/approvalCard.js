/** @import { ApprovalView } from '../../../approvals/approval.ts' */
import { openForm } from '../dialog.js'
import { cardHead } from '../fields.js'
import { button, fill, h, icon } from '../html.js'
import { call, wordsOf } from '../session.js'
import { approvals } from '../store.js'
import { chainTitle, leftUntil, shortHash, stateOf, titleOf, toneOf, whenOf } from '../words.js'
import { budgetLines } from './budget.js'

/** A card takes no click before it was there so long: nobody decides what came under the pointer just now. */
const armedAfterMs = 500

/**
 * One question to the owner. What is approved is what this card shows: its decision hash is sent along, and the vault
 * refuses any other.
 *
 * @param {ApprovalView} shown
 */
export function createCard(shown) {
  const { id, agent, operation, decision_hash } = shown
  const left = h('span', { class: 'left', role: 'timer', 'aria-label': 'Time left' })
  const problem = h('p', { class: 'problem', role: 'alert', hidden: true })
  const end = h('div', { class: 'card-end' })
  const describes = `What ${agent} asks for`
  const approve = button('Approve', () => onApprove(), { kind: 'primary' })
  const deny = button('Deny', () => void decide('deny', {}), { kind: 'danger' })
  const actions = h('div', { class: 'actions decide' }, approve, deny)
  const element = h(
    'article',
    { class: 'card', 'aria-label': describes, 'data-id': id },
    cardHead(agent, titleOf(operation), left),
    shown.opaque ? opaqueNote() : null,
    amountOf(shown),
    shown.warnings.length === 0 ? null : warningsOf(shown.warnings),
    part('What happens', listOf(shown.effects)),
    part('Why you are asked', listOf(shown.reasons)),
    shown.purpose === null
      ? null
      : part(
          'What the agent says',
          h('p', { class: 'said' }, h('bdi', {}, shown.purpose)),
          note('Its own words; nobody checked them.'),
        ),
    shown.opaque ? null : budgetLines(agent, shown),
    h(
      'footer',
      { class: 'facts muted small-text' },
      h('span', {}, 'Asked ', whenOf(shown.created_at)),
      h('span', { title: decision_hash }, 'Decision ', h('code', {}, shortHash(decision_hash))),
    ),
    problem,
    end,
  )
  let isBusy = true
  setTimeout(() => setBusy(false), armedAfterMs)
  update(shown)
  setBusy(true)

  /** Not `disabled`: that would take the keyboard away from the card. @param {boolean} busy */
  function setBusy(busy) {
    isBusy = busy
    for (const one of [approve, deny]) one.setAttribute('aria-disabled', String(busy))
  }

  function onApprove() {
    if (isBusy) return
    if (!shown.opaque) return void decide('approve', { decision_hash })
    openForm({
      title: 'Approve what could not be read?',
      content: [
        h(
          'p',
          {},
          `Nobody can say what this does. It may move everything that ${agent}'s wallet holds, now or later.`,
        ),
      ],
      action: 'Approve anyway',
      kind: 'danger',
      send: () => decide('approve', { decision_hash }),
    })
  }

  /** @param {'approve' | 'deny'} verb @param {object} body */
  async function decide(verb, body) {
    if (isBusy) return
    setBusy(true)
    problem.hidden = true
    try {
      approvals.apply(await call('POST', `/approvals/${id}/${verb}`, body))
    } catch (error) {
      fill(problem, wordsOf(error))
      problem.hidden = false
      // Somebody else may have been first.
      await call('GET', `/approvals/${id}`).then(
        (view) => approvals.apply(view),
        () => {},
      )
    } finally {
      setBusy(false)
    }
  }

  /** @param {ApprovalView} approval */
  function update({ status, decided_by }) {
    const isOpen = status === 'pending'
    if (element.dataset['status'] === status) return
    const hadFocus = actions.contains(document.activeElement)
    element.dataset['status'] = status
    left.hidden = !isOpen
    const result = h(
      'p',
      { class: 'result', role: 'status', tabindex: -1 },
      h('span', { class: 'chip', 'data-tone': toneOf(status) }, stateOf(status)),
      decided_by === null ? null : ` by ${decided_by}`,
    )
    fill(end, isOpen ? actions : result)
    // The keyboard stays at this card.
    if (hadFocus && !isOpen) result.focus()
    tick()
  }

  function tick() {
    const time = leftUntil(shown.expires_at)
    if (left.textContent !== time) left.textContent = time
    left.dataset['tone'] = Date.parse(shown.expires_at) - Date.now() < 60_000 ? 'bad' : 'plain'
  }

  return { element, update, tick }
}

/** What it is about, at a glance: money and who gets it, or a scope. @param {ApprovalView} approval */
function amountOf({ amount, currency, recipient, chain, scope, opaque }) {
  const where = chain === null ? '' : ` on ${chainTitle(chain)}`
  if (amount === null) return h('p', { class: 'subject' }, h('code', {}, scope ?? recipient ?? ''), where)
  // Where the bytes could not be read, the amount is the agent's word and no more.
  if (opaque)
    return h(
      'p',
      { class: 'subject claimed' },
      `The agent says that it moves ${amount} ${currency ?? ''}${where}. Nobody could check that.`,
    )
  return h(
    'div',
    { class: 'subject' },
    h('p', { class: 'amount' }, amount, ' ', currency ?? '', h('small', {}, where)),
    recipient === null ? null : h('p', { class: 'recipient' }, 'to ', h('code', {}, recipient)),
  )
}

const opaqueNote = () =>
  h(
    'div',
    { class: 'alarm', role: 'note' },
    icon('warning'),
    h(
      'div',
      {},
      h('strong', {}, 'Not understood'),
      h(
        'p',
        {},
        'The vault could not read everything that this does. It may do anything. If in doubt, deny.',
      ),
    ),
  )

/** @param {readonly string[]} warnings */
const warningsOf = (warnings) =>
  h(
    'div',
    { class: 'warning', role: 'note' },
    icon('warning'),
    h('div', {}, h('strong', {}, warnings.length === 1 ? 'Warning' : 'Warnings'), listOf(warnings)),
  )

/** @param {string} title @param {...HTMLElement} content */
const part = (title, ...content) => h('section', { class: 'part' }, h('h3', {}, title), ...content)

/** @param {readonly string[]} texts */
const listOf = (texts) =>
  h(
    'ul',
    { class: 'sentences' },
    texts.map((text) => h('li', {}, h('bdi', {}, text))),
  )

/** @param {string} text */
const note = (text) => h('p', { class: 'muted small-text' }, text)
