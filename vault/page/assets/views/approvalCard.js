/** @import { ApprovalView } from '../../../approvals/approval.ts' */
import { copyable } from '../dialog.js'
import { field, input } from '../fields.js'
import { button, fill, h, icon } from '../html.js'
import { kindOf, summaryOf } from '../kinds.js'
import { call, vaultNow, wordsOf } from '../session.js'
import { createStillness } from '../stillness.js'
import { approvals } from '../store.js'
import { chainTitle, leftUntil, shortHash, stateOf, timeOf, toneOf } from '../words.js'
import { budgetLines } from './budget.js'
import { partsOf } from './parts.js'

/**
 * One question to the owner. What is approved is what this card shows: its decision hash is sent along, and the vault
 * refuses any other.
 *
 * @param {ApprovalView} shown @param {{ isChanged?: boolean }} [options] `isChanged`: it replaces a card that said something else
 */
export function createCard(shown, { isChanged = false } = {}) {
  const { id, agent, decision_hash } = shown
  const kind = kindOf(shown)
  const word = shown.second_word
  const command = shown.approve_command
  const left = h('span', { class: 'left', role: 'timer', 'aria-label': 'Time left' })
  const problem = h('p', { class: 'problem', role: 'alert', hidden: true })
  const end = h('div', { class: 'card-end' })
  const typed = input('second_word', { autocorrect: 'off' })
  const approve = button(word === null ? 'Approve' : 'Approve anyway', () => onApprove(), {
    kind: word === null ? 'primary' : 'warn',
  })
  const deny = button('Deny', () => void decide('deny', {}), { kind: 'danger' })
  const bar = h(
    'div',
    { class: 'bar' },
    h('p', { class: 'bar-about' }, summaryOf(shown), warningCount(shown.warnings.length)),
    word === null
      ? null
      : h('div', { class: 'second-word' }, field(`Type “${word}” to approve it all the same`, typed)),
    h('div', { class: 'actions decide' }, command === null ? approve : null, deny),
  )
  const element = h(
    'article',
    { class: 'card', 'aria-label': `What ${agent} asks for`, 'data-id': id, 'data-tone': kind.tone },
    h(
      'header',
      { class: 'ask-head' },
      h('span', { class: 'kind-icon' }, icon(kind.icon)),
      h(
        'div',
        { class: 'who' },
        h('h2', { class: 'kind' }, kind.title),
        h('p', { class: 'asker' }, h('strong', {}, agent), ' asks'),
      ),
      left,
    ),
    isChanged
      ? h(
          'p',
          { class: 'verdict', 'data-tone': 'wait', role: 'alert' },
          'This request changed. Read it again.',
        )
      : null,
    shown.opaque ? opaqueNote() : null,
    amountOf(shown),
    identityOf(shown),
    shown.warnings.length === 0 ? null : warningsOf(shown.warnings),
    section('Why you are asked', listOf(shown.reasons)),
    section('What happens', listOf(shown.effects)),
    shown.purpose === null
      ? null
      : h(
          'section',
          { class: 'part' },
          h('h3', {}, 'Purpose ', h('span', { class: 'by' }, 'from the agent, unchecked')),
          h('p', { class: 'said', dir: 'ltr' }, h('bdi', {}, shown.purpose)),
        ),
    shown.parts.length === 0 ? null : partsOf(shown.parts),
    command === null
      ? null
      : section(
          'How to approve this',
          h(
            'p',
            {},
            'It hands a secret itself to the agent. This page can only deny it; approve it in your chat, or in a terminal on this machine:',
          ),
          copyable(command, 'command'),
        ),
    shown.opaque ? null : budgetLines(agent, shown),
    h(
      'footer',
      { class: 'facts muted small-text' },
      h('span', {}, 'Asked ', timeOf(shown.created_at)),
      h('span', { title: decision_hash }, 'Decision ', h('code', {}, shortHash(decision_hash))),
    ),
    problem,
    end,
  )
  let isBusy = false
  const isStill = createStillness(placeOf)
  typed.addEventListener('input', showReady)
  update(shown)

  /** Its place on the page and its size; what the reader scrolls does not count. */
  function placeOf() {
    const { top, height } = element.getBoundingClientRect()
    return `${Math.round(top + window.scrollY)} ${Math.round(height)}`
  }

  const hasWord = () => word === null || typed.value.trim().toLowerCase() === word.toLowerCase()

  /** Not `disabled`: that would take the keyboard away from the card. */
  function showReady() {
    const isReady = isStill() && !isBusy
    setReady(approve, isReady && hasWord())
    setReady(deny, isReady)
  }

  /** @param {boolean} busy */
  function setBusy(busy) {
    isBusy = busy
    showReady()
  }

  function onApprove() {
    if (!hasWord()) return typed.focus()
    void decide('approve', { decision_hash, ...(word !== null && { second_word: word }) })
  }

  /** @param {'approve' | 'deny'} verb @param {object} body */
  async function decide(verb, body) {
    if (isBusy || !isStill()) return showReady()
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
    const hadFocus = end.contains(document.activeElement)
    // Its place stays its own: nothing else comes under a pointer that has just decided this.
    if (!isOpen)
      for (const place of [element, end])
        place.style.minHeight ||= `${place.getBoundingClientRect().height}px`
    element.dataset['status'] = status
    left.hidden = !isOpen
    const result = h(
      'p',
      { class: 'result', role: 'status', tabindex: -1 },
      h('span', { class: 'chip', 'data-tone': toneOf(status) }, stateOf(status)),
      decided_by === null ? null : ` by ${decided_by}`,
    )
    fill(end, isOpen ? bar : h('div', { class: 'bar' }, result))
    // The keyboard stays at this card.
    if (hadFocus && !isOpen) result.focus({ preventScroll: true })
    tick()
  }

  function tick() {
    const time = leftUntil(shown.expires_at, vaultNow())
    if (left.textContent !== time) left.textContent = time
    const tone = Date.parse(shown.expires_at) - vaultNow() < 60_000 ? 'bad' : 'plain'
    if (left.dataset['tone'] !== tone) left.dataset['tone'] = tone
    showReady()
  }

  return { element, update, tick, decision_hash }
}

/** @param {HTMLElement} one @param {boolean} isReady */
function setReady(one, isReady) {
  const value = String(!isReady)
  if (one.getAttribute('aria-disabled') !== value) one.setAttribute('aria-disabled', value)
}

/** What it is about, at a glance: money and the other side, or a scope. @param {ApprovalView} approval */
function amountOf(approval) {
  const { amount, currency, recipient, chain, scope, opaque } = approval
  const { lead, party = 'to' } = kindOf(approval)
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
    lead === undefined ? null : h('p', { class: 'lead-in' }, lead),
    h(
      'p',
      { class: `amount${amount.length > 14 ? ' long' : ''}` },
      amount,
      ' ',
      currency ?? '',
      h('small', {}, where),
    ),
    recipient === null ? null : h('p', { class: 'recipient' }, `${party} `, h('code', {}, recipient)),
  )
}

/** To the second: by it two equal questions are told apart. @param {string} iso */
const momentOf = (iso) => `${iso.slice(0, 19).replace('T', ' ')} UTC`

/** What tells two equal questions apart. @param {ApprovalView} approval */
function identityOf({ from, nonce, first_time, asked_before }) {
  const before =
    asked_before === null
      ? null
      : h(
          'strong',
          {},
          `Asked before at ${momentOf(asked_before.at)}, ${stateOf(asked_before.status).toLowerCase()}`,
        )
  const account =
    from === null ? null : ['From ', h('code', {}, from), nonce === null ? '' : `, nonce ${nonce}`]
  if (first_time !== true && before === null && account === null) return null
  return h(
    'ul',
    { class: 'identity' },
    first_time === true ? h('li', {}, h('strong', {}, 'First time to this address')) : null,
    before === null ? null : h('li', {}, before),
    account === null ? null : h('li', { class: 'muted' }, account),
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

/** The buttons can be in sight before the warnings are. @param {number} count */
const warningCount = (count) =>
  count === 0 ? null : h('strong', { class: 'warned' }, ` · ${count} ${count === 1 ? 'warning' : 'warnings'}`)

/** @param {string} title @param {...HTMLElement} content */
const section = (title, ...content) => h('section', { class: 'part' }, h('h3', {}, title), ...content)

/** @param {readonly string[]} texts */
const listOf = (texts) =>
  h(
    'ul',
    { class: 'sentences' },
    texts.map((text) => h('li', {}, h('bdi', {}, text))),
  )
