/**
 * What components use of the browser, written down: they are read by the server's program too, which knows no DOM. Only
 * handlers and effects may use it; while the server renders there is none of it.
 */
interface Browser {
  readonly navigator: { readonly clipboard?: { writeText(text: string): Promise<void> } }
  readonly location: { assign(href: string): void }
  setInterval(run: () => void, ms: number): number
  clearInterval(timer: number): void
  setTimeout(run: () => void, ms: number): number
  clearTimeout(timer: number): void
  addEventListener(type: 'beforeunload', listener: (event: { preventDefault(): void }) => void): void
  removeEventListener(type: 'beforeunload', listener: (event: { preventDefault(): void }) => void): void
}

export const browser = globalThis as unknown as Browser
