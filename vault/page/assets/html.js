/** @typedef {Node | string | number | null | undefined | false} Child */

/**
 * Text in a form that has one look: what is invisible, turns the direction of writing or is drawn over its neighbours is
 * shown as its number. The same rule as core/text/visibleText.ts; every text that the page shows goes through it.
 *
 * @param {string} text
 */
export const visible = (text) =>
  text
    .replace(/(?<=^|\n)\p{M}+|(?<=\p{M}{3})\p{M}+/gu, (marks) => Array.from(marks, numbered).join(''))
    .replace(
      /[^\p{L}\p{M}\p{N}\p{P}\p{S} ]|[\p{Default_Ignorable_Code_Point}\u2800\p{Me}]|[\u0334-\u0338]|[\u20d2-\u20d3]|[\u20d8-\u20da]|[\u20e5-\u20e6]|[\u20ea-\u20eb]/gu,
      numbered,
    )

/** @param {string} char */
const numbered = (char) => `\\u{${char.codePointAt(0)?.toString(16)}}`

/**
 * Makes an element. Children are nodes or text; text stays text, whatever is in it.
 *
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} tag
 * @param {Record<string, unknown>} [props] `class`, attributes (false, null: left out), `on…` listeners
 * @param {...(Child | Child[])} children
 * @returns {HTMLElementTagNameMap[K]}
 */
export function h(tag, props = {}, ...children) {
  const element = document.createElement(tag)
  for (const [name, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue
    if (name.startsWith('on')) element.addEventListener(name.slice(2), /** @type {EventListener} */ (value))
    else element.setAttribute(name, value === true ? '' : String(value))
  }
  element.append(...nodesOf(children.flat()))
  return element
}

/** @param {Child[]} children */
export const nodesOf = (children) =>
  children
    .filter((child) => child !== null && child !== undefined && child !== false)
    .map((child) => (child instanceof Node ? child : document.createTextNode(visible(String(child)))))

/** @param {Element} parent @param {...(Child | Child[])} children */
export const fill = (parent, ...children) => parent.replaceChildren(...nodesOf(children.flat()))

/** One of the symbols of index.html. @param {string} name */
export function icon(name) {
  const space = 'http://www.w3.org/2000/svg'
  const svg = document.createElementNS(space, 'svg')
  svg.setAttribute('class', 'icon')
  svg.setAttribute('aria-hidden', 'true')
  const use = document.createElementNS(space, 'use')
  use.setAttribute('href', `#i-${name}`)
  svg.append(use)
  return svg
}

/** An element of index.html. @param {string} id */
export function byId(id) {
  const element = document.getElementById(id)
  if (element === null) throw new Error(`Expected an element ${id}.`)
  return element
}

/**
 * @param {string} label @param {(event: Event) => void} onclick
 * @param {{ kind?: string, icon?: string, name?: string }} [options] `name`: what screen readers say, where the label alone is not clear
 */
export const button = (label, onclick, options = {}) =>
  h(
    'button',
    { type: 'button', class: `button ${options.kind ?? ''}`, 'aria-label': options.name, onclick },
    options.icon === undefined ? null : icon(options.icon),
    label,
  )
