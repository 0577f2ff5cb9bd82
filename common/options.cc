#include "common/options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <utility>

#include "common/check.h"
#include "common/option_help.h"
#include "common/option_values.h"
#include "common/text.h"

namespace mgpu {
namespace {

using Values = std::vector<std::string>;

struct Flag {
  FlagText text;
  // Sets the target. `source` names the value in errors.
  std::function<Result<void>(const std::string& source, const Values& values)> set;
  CLI::Option* option = nullptr;
};

// Sets `target` to the last of the values: a later flag overrides an earlier one.
template <class T, class Parse>
auto setter(T& target, Parse parse) {
  return [&target, parse](const std::string& source, const Values& values) -> Result<void> {
    auto value = parse(source, values.back());
    if (!value) return value.error();
    target = *std::move(value);
    return {};
  };
}

std::string or_none(const std::string& text) {
  return text.empty() ? "none" : text;
}

// In the reverse order that CLI11 wants. "--node=" becomes "--node" and "": CLI11 would take the
// next word for its value.
Values reversed_words(int argc, const char* const* argv) {
  Values words;
  for (int i = 1; i < argc; ++i) {
    std::string word = argv[i];
    const bool empty_value = word.starts_with("--") && word.find('=') == word.size() - 1;
    if (empty_value) word.pop_back();
    words.push_back(std::move(word));
    if (empty_value) words.emplace_back();
  }
  std::reverse(words.begin(), words.end());
  return words;
}

Result<void> set_from_environment(const Flag& flag) {
  const char* const value =
      flag.text.environment.empty() ? nullptr : std::getenv(flag.text.environment.c_str());
  // Deployments that leave a variable empty mean that it is not set.
  if (value == nullptr || *value == '\0') return {};
  return flag.set(flag.text.environment, {value});
}

Result<void> set_flag(const Flag& flag) {
  if (flag.option->count() == 0) return set_from_environment(flag);
  return flag.set("--" + flag.text.name, flag.option->results());
}

}  // namespace

struct Options::State {
  std::string title;  // "mgpu-sim" or "mgpu-sim demo"
  std::string description;
  std::string environment_prefix;
  std::unique_ptr<CLI::App> owned_app;  // of the program
  CLI::App* app = nullptr;              // owned_app, or a subcommand of the parent's
  std::vector<Flag> flags;
  std::vector<std::function<Result<void>()>> checks;
  std::vector<std::unique_ptr<Options>> commands;
  std::string command;

  void add(Flag flag);
  Options* chosen() const;
  std::string flags_help() const;
  std::string help() const;
  Result<void> apply() const;
  ParsedOptions refused(const std::string& sentence) const;
  ParsedOptions read(int argc, const char* const* argv) const;
};

void Options::State::add(Flag flag) {
  const std::string dashed = "--" + flag.text.name;
  MGPU_CHECK(app->get_option_no_throw(dashed) == nullptr, "a flag was added twice");
  if (flag.text.kind.empty()) {
    flag.option = app->add_flag(dashed)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  } else {
    flag.option = app->add_option(dashed)
                      ->type_name(flag.text.kind)
                      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  }
  if (!environment_prefix.empty()) {
    flag.text.environment = environment_name(environment_prefix, flag.text.name);
  }
  flags.push_back(std::move(flag));
}

// The command on the line; null without commands, or when none was named.
Options* Options::State::chosen() const {
  for (const auto& each : commands) {
    if (each->state_->app->parsed()) return each.get();
  }
  return nullptr;
}

std::string Options::State::flags_help() const {
  std::string text;
  for (const Flag& flag : flags) text += flag_help(flag.text);
  return text;
}

std::string Options::State::help() const {
  const Options* const command_options = chosen();
  const State& shown = command_options ? *command_options->state_ : *this;
  std::string text = shown.title + ": " + shown.description + "\n\nUsage: " + shown.title;
  if (!shown.commands.empty()) {
    text += " COMMAND [FLAGS]\n\nCommands:\n";
    for (const auto& each : shown.commands) {
      text += "  " + each->state_->app->get_name() + "\n" +
              wrap_text(each->state_->description, "      ");
    }
    text += "\n'" + shown.title + " COMMAND --help' shows a command's flags.";
  } else {
    text += " [FLAGS]";
  }
  text += "\n\nFlags:\n" + shown.flags_help();
  if (&shown != this) text += flags_help();
  return text +
         "  --help\n      print this and end\n  --version\n      print the version and end\n";
}

Result<void> Options::State::apply() const {
  for (const Flag& flag : flags) {
    if (auto set = set_flag(flag); !set) return set;
  }
  const Options* const command_options = chosen();
  if (command_options != nullptr) {
    if (auto applied = command_options->state_->apply(); !applied) return applied;
  }
  for (const auto& each : checks) {
    if (auto checked = each(); !checked) return checked;
  }
  return {};
}

ParsedOptions Options::State::refused(const std::string& sentence) const {
  return {.run = false, .exit_code = 2, .print = title + ": " + sentence + "; see --help\n"};
}

ParsedOptions Options::State::read(int argc, const char* const* argv) const {
  try {
    app->parse(reversed_words(argc, argv));
  } catch (const CLI::CallForHelp&) {
    return {.run = false, .exit_code = 0, .print = help()};
  } catch (const CLI::CallForVersion&) {
    return {.run = false, .exit_code = 0, .print = version_text() + "\n"};
  } catch (const CLI::ExtrasError&) {
    const Values extras = app->remaining(true);
    const std::string first = extras.empty() ? "" : extras.front();
    return refused((first.starts_with('-') ? "unknown flag " : "unexpected argument ") +
                   in_quotes(first));
  } catch (const CLI::ArgumentMismatch& mismatch) {
    // "--port: 1 required NUMBER missing"
    const std::string text = mismatch.what();
    return refused(text.substr(0, text.find(':')) + " needs a value");
  } catch (const CLI::Error& failure) {
    return refused(in_quotes(failure.what()));
  }
  if (commands.empty() || chosen() != nullptr) return {.run = true, .exit_code = 0, .print = ""};
  Values names;
  for (const auto& each : commands) names.push_back(each->state_->app->get_name());
  return refused("a command is needed: " + join_choices(names));
}

Options::Options(std::string program, std::string description, std::string environment_prefix)
    : state_(std::make_unique<State>()) {
  state_->owned_app = std::make_unique<CLI::App>(description, program);
  state_->app = state_->owned_app.get();
  state_->app->set_help_flag("--help", "");
  state_->app->set_version_flag("--version", version_text());
  state_->title = std::move(program);
  state_->description = std::move(description);
  state_->environment_prefix = std::move(environment_prefix);
}

Options::Options(std::unique_ptr<State> state) : state_(std::move(state)) {}

Options::~Options() = default;

void Options::add_text(const std::string& name, const std::string& help, std::string& target) {
  const auto same = [](const std::string&, const std::string& text) {
    return Result<std::string>(text);
  };
  state_->add({{name, "TEXT", help, "", or_none(target), ""}, setter(target, same)});
}

void Options::add_choice(const std::string& name, const std::string& help, std::string& target,
                         const std::vector<std::string>& choices) {
  const auto parse = [choices](const std::string& source, const std::string& text) {
    return parse_choice(source, text, choices);
  };
  state_->add({{name, "CHOICE", help, join_choices(choices), target, ""}, setter(target, parse)});
}

void Options::add_number(const std::string& name, const std::string& help, std::int64_t& target,
                         std::int64_t least, std::int64_t most) {
  const auto parse = [least, most](const std::string& source, const std::string& text) {
    return parse_number(source, text, least, most);
  };
  state_->add({{name, "NUMBER", help, std::to_string(least) + " to " + std::to_string(most),
                std::to_string(target), ""},
               setter(target, parse)});
}

void Options::add_duration(const std::string& name, const std::string& help, Duration& target,
                           Duration least, Duration most) {
  const auto parse = [least, most](const std::string& source, const std::string& text) {
    return parse_duration(source, text, least, most);
  };
  state_->add({{name, "TIME", help, format_duration(least) + " to " + format_duration(most),
                format_duration(target), ""},
               setter(target, parse)});
}

void Options::add_flag(const std::string& name, const std::string& help, bool& target) {
  state_->add({{name, "", help, "", target ? "true" : "false", ""}, setter(target, parse_switch)});
}

void Options::add_texts(const std::string& name, const std::string& help,
                        std::vector<std::string>& target) {
  std::string defaults;
  for (const std::string& text : target) defaults += (defaults.empty() ? "" : ",") + text;
  const auto set = [&target](const std::string&, const Values& values) -> Result<void> {
    target = values;
    return {};
  };
  state_->add({{name, "TEXT", help, "may be repeated", or_none(defaults), ""}, set});
}

void Options::check(std::function<Result<void>()> check) {
  state_->checks.push_back(std::move(check));
}

Options& Options::add_command(const std::string& name, const std::string& description) {
  auto command = std::make_unique<State>();
  command->title = state_->title + " " + name;
  command->description = description;
  command->environment_prefix = state_->environment_prefix;
  command->app = state_->app->add_subcommand(name, description);
  command->app->fallthrough();
  state_->commands.push_back(std::unique_ptr<Options>(new Options(std::move(command))));
  return *state_->commands.back();
}

const std::string& Options::command() const {
  return state_->command;
}

ParsedOptions Options::parse(int argc, const char* const* argv) {
  ParsedOptions parsed = state_->read(argc, argv);
  if (!parsed.run) return parsed;
  if (const Options* const chosen = state_->chosen()) {
    state_->command = chosen->state_->app->get_name();
  }
  if (auto applied = state_->apply(); !applied) return state_->refused(applied.error().message);
  return parsed;
}

std::string version_text() {
  return std::string("mgpu ") + MGPU_VERSION + " (" +
#ifdef __clang__
         "clang "
#else
         "gcc "
#endif
         + __VERSION__ + ")";
}

}  // namespace mgpu
