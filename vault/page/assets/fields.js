import { h } from './html.js'

/** @import { Child } from './html.js' */

let last = 0

/**
 * A labelled control, with words below that explain it.
 *
 * @param {string} label @param {HTMLElement} control @param {string} [hint]
 */
export function field(label, control, hint) {
  const id = `f${++last}`
  control.id = id
  const explains = hint === undefined ? null : h('span', { class: 'hint', id: `${id}-hint` }, hint)
  if (explains !== null) control.setAttribute('aria-describedby', explains.id)
  return h('div', { class: 'field' }, h('label', { for: id }, label), control, explains)
}

/** @param {string} name @param {Record<string, unknown>} [props] */
export const input = (name, props = {}) =>
  h('input', {
    name,
    type: 'text',
    autocomplete: 'off',
    spellcheck: 'false',
    autocapitalize: 'off',
    ...props,
  })

/**
 * @param {string} name @param {string} value @param {Record<string, unknown>} [props]
 */
export function area(name, value, props = {}) {
  const element = h('textarea', { name, rows: 4, spellcheck: 'false', autocapitalize: 'off', ...props })
  element.value = value
  return element
}

/**
 * @param {string} name @param {readonly (readonly [string, string])[]} options value and label @param {string} [selected]
 */
export function choice(name, options, selected) {
  const element = h(
    'select',
    { name },
    options.map(([value, label]) => h('option', { value }, label)),
  )
  if (selected !== undefined) element.value = selected
  return element
}

/** Trimmed lines that are not empty. @param {unknown} text */
export const linesOf = (text) =>
  String(text)
    .split(/[\n,]/)
    .map((line) => line.trim())
    .filter((line) => line !== '')

/** A view's heading with what can be done in it. @param {string} title @param {...Child} actions */
export const heading = (title, ...actions) =>
  h('div', { class: 'heading' }, h('h1', {}, title), h('div', { class: 'heading-actions' }, ...actions))

/**
 * The first line of a card: whose it is, what about it, and something at the end.
 *
 * @param {string} name @param {Child} [what] @param {Child} [end]
 */
export const cardHead = (name, what, end) =>
  h(
    'header',
    { class: 'card-head' },
    h(
      'div',
      { class: 'who' },
      h('strong', { class: 'agent' }, name),
      what === undefined ? null : h('span', {}, what),
    ),
    end,
  )

/** What stands where nothing is yet, with the next step. @param {string} title @param {...Child} children */
export const empty = (title, ...children) =>
  h('div', { class: 'empty' }, h('p', { class: 'empty-title' }, title), ...children)

/** In the shape of what comes, so that nothing jumps. */
export const loading = () =>
  h(
    'div',
    { class: 'loading', role: 'status' },
    h('span', { class: 'visually-hidden' }, 'Loading…'),
    [1, 2, 3].map(() => h('div', { class: 'skeleton', 'aria-hidden': 'true' })),
  )

/** @param {string} words @param {() => void} again */
export const failed = (words, again) =>
  h(
    'div',
    { class: 'empty', role: 'alert' },
    h('p', { class: 'empty-title' }, 'This could not be shown'),
    h('p', {}, words),
    h('button', { type: 'button', class: 'button', onclick: again }, 'Try again'),
  )
