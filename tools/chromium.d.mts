export function chromiumOptions(): { readonly executablePath: string; readonly args: string[] }
