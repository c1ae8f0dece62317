import { type ComponentType, h, hydrate, render } from 'preact'
import { InsideIsland } from './island.ts'

// biome-ignore lint/suspicious/noExplicitAny: props come out of the page; the component that wrote them knows their type
type AnyComponent = ComponentType<any>

/** Loads a component. Use `import()` if the first view of a page does not need it. */
export type LoadIsland = () => AnyComponent | Promise<AnyComponent>

/** Server-rendered islands by name. They are loaded together with the page. */
export const islandsOf = (
  ...islands: readonly { readonly island: { readonly name: string; readonly component: AnyComponent } }[]
): Record<string, LoadIsland> =>
  Object.fromEntries(islands.map(({ island: { name, component } }) => [name, () => component]))

/** Hydrates the server-rendered islands and fills the slots. Each page's `entry.ts` calls it once. */
export async function startIslands(islands: Readonly<Record<string, LoadIsland>>): Promise<void> {
  hideBrokenImages()
  const elements = [...document.querySelectorAll<HTMLElement>('[data-island]')]
  await Promise.all(elements.map((element) => start(element, islands)))
}

/** Hides avatar images that do not load, including those that islands add later. The letter below them is then visible. */
function hideBrokenImages(): void {
  const hide = (element: EventTarget | null) => {
    if (element instanceof HTMLImageElement && element.closest('.avatar')) element.hidden = true
  }
  document.addEventListener('error', ({ target }) => hide(target), true)
  for (const image of document.images) if (image.complete && image.naturalWidth === 0) hide(image)
}

async function start(element: HTMLElement, islands: Readonly<Record<string, LoadIsland>>): Promise<void> {
  const load = islands[element.dataset['island']!]
  if (load === undefined) return
  const component = await load()
  const drawn = h(InsideIsland.Provider, {
    value: true,
    children: h(component, JSON.parse(element.dataset['props'] ?? '{}')),
  })
  if ('fresh' in element.dataset) {
    element.replaceChildren()
    render(drawn, element)
  } else {
    const early = earlyInputs(element)
    hydrate(drawn, element)
    for (const repeat of early) repeat()
  }
  element.dataset['awake'] = ''
}

type Control = HTMLInputElement | HTMLTextAreaElement | HTMLSelectElement

/** Input that the reader typed or chose before the script loaded. Each event is dispatched again when its component listens. */
function earlyInputs(element: HTMLElement): (() => void)[] {
  const controls = [...element.querySelectorAll<Control>('input, textarea, select')].filter(isChanged)
  return controls.map((control) => {
    const { value } = control
    const given = isTicked(control) ? { checked: control.checked } : { value }
    return () => {
      Object.assign(control, given)
      for (const type of ['input', 'change']) control.dispatchEvent(new Event(type, { bubbles: true }))
    }
  })
}

const isTicked = (control: Control): control is HTMLInputElement => /^(radio|checkbox)$/.test(control.type)

/**
 * Whether a control has another value than the server's. A radio button that is no longer selected does not count, because the
 * selected one does.
 */
function isChanged(control: Control): boolean {
  if (control instanceof HTMLSelectElement)
    return [...control.options].some(({ selected, defaultSelected }) => selected && !defaultSelected)
  if (!isTicked(control)) return control.value !== control.defaultValue
  const { type, checked, defaultChecked } = control
  return checked !== defaultChecked && (checked || type === 'checkbox')
}

/** The data that the server wrote for the page's scripts, which is `data` of `renderPage`. */
export function pageData<T>(): T {
  return JSON.parse(document.getElementById('page-data')?.textContent ?? 'null') as T
}
